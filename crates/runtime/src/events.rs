//! Kubernetes Events: deduplicated, rate limited and written. Their reasons and messages belong to the controllers.
//!
//! Publishing never waits and never fails: an Event that finds the queue full is dropped and counted.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::TokenBucket;
use crate::client::{ApiErrorKind, describe, name_of, uid_of};
use crate::clock::Clock;
use crate::random::Rng;

/// The reporting component of Events (OPS-181). Dashboards and scripts filter by it.
const COMPONENT: &str = "karpenter";
/// How long an equal Event is dropped by default (OPS-182).
const DEDUPE: Duration = Duration::from_secs(120);
/// The largest number of Events that wait to be written. A burst beyond it has nothing new.
const QUEUE: usize = 1000;
/// Events whose repetitions are counted on the object written first.
const REMEMBERED: usize = 4096;
/// How often expired dedupe entries are swept out, so that those of a burst do not stay.
const SWEEP_EVERY: Duration = DEDUPE;
/// Attempts to write one Event.
const ATTEMPTS: u32 = 3;

/// Normal or Warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Something needs attention.
    Warning,
}

impl EventType {
    fn text(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// The object an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct ObjectRef {
    /// For example `v1` or `karpenter.sh/v1`.
    pub api_version: String,
    /// For example `Pod`.
    pub kind: String,
    /// `None` for cluster-scoped objects; their Events go to namespace `default`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl ObjectRef {
    /// The reference to an object. `None` without a name or unique id: no API server has such an object, and no Event can be about it. The log
    /// says which of the two is missing.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Option<Self> {
        let found = name_of(object).and_then(|name| Ok((name, uid_of(object)?)));
        let unnamed =
            |error: &kube::Error| tracing::warn!(error = %describe(error), "no event is published about an object");
        let (name, uid) = found.inspect_err(unnamed).ok()?;
        Some(Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: object.meta().namespace.clone(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        })
    }
}

/// An Event about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The object.
    pub object: ObjectRef,
    /// Normal or Warning.
    pub kind: EventType,
    /// The reason: one word that programs compare.
    pub reason: Cow<'static, str>,
    /// The message: a sentence, for people.
    pub message: String,
    /// What makes this Event the same as an earlier one, together with the reason (not the object's kind, OPS-182).
    /// Without values it is never dropped.
    pub dedupe: Vec<String>,
    /// How long the same Event is dropped; 2 minutes when `None`.
    pub dedupe_timeout: Option<Duration>,
}

impl Event {
    fn dedupe_key(&self) -> Option<String> {
        let mut key = self.reason.to_lowercase();
        for value in &self.dedupe {
            key.push('-');
            key.push_str(value);
        }
        (!self.dedupe.is_empty()).then_some(key)
    }
}

/// Publishes Events. Cloning is cheap; all clones share one memory.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sender: mpsc::Sender<Event>,
    dedupe: Mutex<Dedupe>,
    limits: Vec<(&'static str, TokenBucket)>,
    dropped: AtomicU64,
}

/// Until when the same Event is dropped.
#[derive(Debug)]
struct Dedupe {
    until: HashMap<String, Instant>,
    sweep_at: Instant,
}

impl Recorder {
    /// A recorder and the receiver of its Events: pass that to [`write_events`], or read it in a test.
    pub fn new() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        // OPS-183
        let limits = vec![("Nominated", TokenBucket::new(5.0, 10))];
        (
            Self(Arc::new(Inner {
                sender,
                dedupe: Mutex::new(Dedupe {
                    until: HashMap::new(),
                    sweep_at: Instant::now() + SWEEP_EVERY,
                }),
                limits,
                dropped: AtomicU64::new(0),
            })),
            receiver,
        )
    }

    /// Publishes an Event unless it repeats an earlier one, exceeds its reason's rate, or the queue is full.
    pub fn publish(&self, event: Event) {
        if let Some(key) = event.dedupe_key()
            && !self.is_new(key, event.dedupe_timeout.unwrap_or(DEDUPE))
        {
            return;
        }
        // After deduplication: an Event that is denied here still occupies its slot (OPS-183).
        let limit = self.0.limits.iter().find(|(reason, _)| *reason == event.reason);
        if limit.is_some_and(|(_, bucket)| !bucket.try_take()) {
            return;
        }
        if self.0.sender.try_send(event).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether this Event would be published and not dropped as an equal one. Its message does not matter and need not be computed before.
    pub fn is_due(&self, event: &Event) -> bool {
        let dedupe = self.0.dedupe.lock().unwrap_or_else(PoisonError::into_inner);
        let end = event.dedupe_key().and_then(|key| dedupe.until.get(&key));
        end.is_none_or(|end| *end <= Instant::now())
    }

    /// How many Events found the queue full.
    pub fn dropped(&self) -> u64 {
        self.0.dropped.load(Ordering::Relaxed)
    }

    fn is_new(&self, key: String, timeout: Duration) -> bool {
        let mut dedupe = self.0.dedupe.lock().unwrap_or_else(PoisonError::into_inner);
        let Dedupe { until, sweep_at } = &mut *dedupe;
        let now = Instant::now();
        if until.get(&key).is_some_and(|end| *end > now) {
            return false;
        }
        if *sweep_at <= now {
            until.retain(|_, end| *end > now);
            until.shrink_to_fit();
            *sweep_at = now + SWEEP_EVERY;
        }
        until.insert(key, now + timeout);
        true
    }
}

/// Writes Events until `shutdown` is cancelled or every recorder is gone.
pub async fn write_events(
    client: Client,
    mut events: mpsc::Receiver<Event>,
    clock: Clock,
    rng: Rng,
    shutdown: CancellationToken,
) {
    let mut writer = Writer {
        client,
        clock,
        rng,
        written: HashMap::new(),
        order: VecDeque::new(),
    };
    loop {
        let event = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            event = events.recv() => event,
        };
        let Some(event) = event else { return };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = writer.write(event) => {}
        }
    }
}

/// What makes two Events one object with a count.
type Identity = (ObjectRef, &'static str, String, String);

struct Writer {
    client: Client,
    clock: Clock,
    rng: Rng,
    /// Name and count of what was written.
    written: HashMap<Identity, (String, i32)>,
    /// In the order written, to forget the oldest.
    order: VecDeque<Identity>,
}

impl Writer {
    async fn write(&mut self, event: Event) {
        let identity: Identity = (
            event.object.clone(),
            event.kind.text(),
            event.reason.to_string(),
            event.message.clone(),
        );
        for attempt in 1..=ATTEMPTS {
            let result = match self.written.get(&identity).cloned() {
                Some((name, count)) => self.count(&identity, &name, count + 1).await,
                None => self.create(&identity).await,
            };
            let Err(error) = result else { return };
            match ApiErrorKind::of(&error) {
                // The Event we count on has expired, or a name was drawn twice: the next attempt makes a new one.
                ApiErrorKind::NotFound => {
                    if self.written.remove(&identity).is_none() {
                        return;
                    }
                }
                ApiErrorKind::AlreadyExists => {}
                ApiErrorKind::Retryable | ApiErrorKind::TooManyRequests => {
                    if attempt < ATTEMPTS {
                        tokio::time::sleep(self.rng.jitter(Duration::from_secs(1), 0.5)).await;
                    }
                }
                _ => {
                    // A namespace that is going, or no permission: nothing to be gained by trying again.
                    tracing::debug!(error = %describe(&error), reason = %event.reason, "event was refused");
                    return;
                }
            }
        }
    }

    fn api(&self, object: &ObjectRef) -> Api<CoreEvent> {
        Api::namespaced(self.client.clone(), namespace(object))
    }

    async fn count(&mut self, identity: &Identity, name: &str, count: i32) -> Result<(), kube::Error> {
        let patch = json!({"count": count, "lastTimestamp": Time(self.clock.now())});
        self.api(&identity.0)
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await?;
        if let Some(entry) = self.written.get_mut(identity) {
            entry.1 = count;
        }
        Ok(())
    }

    async fn create(&mut self, identity: &Identity) -> Result<(), kube::Error> {
        let (object, kind, reason, message) = identity;
        // Random, because virtual time gives two Events the same instant; cut, because names are bounded.
        let name: String = object.name.chars().take(230).collect();
        let name = format!("{name}.{:016x}", self.rng.next_u64());
        let now = Time(self.clock.now());
        let event = CoreEvent {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(namespace(object).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some(object.api_version.clone()),
                kind: Some(object.kind.clone()),
                name: Some(object.name.clone()),
                namespace: object.namespace.clone(),
                uid: (!object.uid.is_empty()).then(|| object.uid.clone()),
                ..ObjectReference::default()
            },
            type_: Some((*kind).to_owned()),
            reason: Some(reason.clone()),
            message: Some(message.clone()),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: None,
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            first_timestamp: Some(now.clone()),
            last_timestamp: Some(now),
            count: Some(1),
            ..CoreEvent::default()
        };
        self.api(object).create(&PostParams::default(), &event).await?;
        self.remember(identity.clone(), name);
        Ok(())
    }

    fn remember(&mut self, identity: Identity, name: String) {
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.written.remove(&oldest);
        }
        self.order.push_back(identity.clone());
        self.written.insert(identity, (name, 1));
    }
}

/// The namespace Events about an object go to.
fn namespace(object: &ObjectRef) -> &str {
    object.namespace.as_deref().unwrap_or("default")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &'static str, message: &str, dedupe: &[&str]) -> Event {
        Event {
            object: ObjectRef {
                kind: "Pod".into(),
                name: "web".into(),
                ..ObjectRef::default()
            },
            kind: EventType::Normal,
            reason: reason.into(),
            message: message.into(),
            dedupe: dedupe.iter().map(ToString::to_string).collect(),
            dedupe_timeout: None,
        }
    }

    fn published(events: &mut mpsc::Receiver<Event>) -> Vec<String> {
        std::iter::from_fn(|| events.try_recv().ok())
            .map(|event| event.message)
            .collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_event_is_dropped_for_two_minutes() {
        let (recorder, mut events) = Recorder::new();
        // OPS-182, SCH-343
        assert!(recorder.is_due(&event("Evicted", "", &["web"])));
        recorder.publish(event("Evicted", "1", &["web"]));
        assert!(!recorder.is_due(&event("Evicted", "", &["web"])));
        recorder.publish(event("Evicted", "another text, same key", &["web"]));
        recorder.publish(event("EVICTED", "another case, same key", &["web"]));
        recorder.publish(event("Evicted", "2", &["api"]));
        recorder.publish(event("Evicted", "3", &["web", "x"]));
        tokio::time::sleep(Duration::from_secs(119)).await;
        recorder.publish(event("Evicted", "too early", &["web"]));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(recorder.is_due(&event("Evicted", "", &["web"])));
        recorder.publish(event("Evicted", "4", &["web"]));
        assert_eq!(published(&mut events), ["1", "2", "3", "4"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_entries_of_a_burst_do_not_stay() {
        let (recorder, _events) = Recorder::new();
        for number in 0..3000 {
            recorder.publish(event("Evicted", "", &[&number.to_string()]));
        }
        tokio::time::sleep(2 * DEDUPE).await;
        recorder.publish(event("Evicted", "", &["web"]));
        assert_eq!(recorder.0.dedupe.lock().expect("a lock").until.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_timeout_of_its_own_and_no_values_at_all() {
        let (recorder, mut events) = Recorder::new();
        let mut slow = event("Unconsolidatable", "slow", &["u"]);
        slow.dedupe_timeout = Some(Duration::from_secs(900));
        // OPS-182
        recorder.publish(slow.clone());
        tokio::time::sleep(Duration::from_secs(600)).await;
        recorder.publish(slow);
        recorder.publish(event("Finalized", "a", &[]));
        recorder.publish(event("Finalized", "a", &[]));
        assert_eq!(published(&mut events), ["slow", "a", "a"]);
    }

    #[tokio::test(start_paused = true)]
    async fn nominations_are_rate_limited_after_deduplication() {
        let (recorder, mut events) = Recorder::new();
        // OPS-183, SCH-343, SCH-485
        for index in 0..30 {
            recorder.publish(event("Nominated", &index.to_string(), &[&index.to_string()]));
        }
        assert_eq!(published(&mut events).len(), 10);
        tokio::time::sleep(Duration::from_secs(1)).await;
        recorder.publish(event("Nominated", "again", &["29"]));
        assert!(published(&mut events).is_empty(), "the denied one occupies its slot");
        for index in 30..60 {
            recorder.publish(event("Nominated", &index.to_string(), &[&index.to_string()]));
        }
        assert_eq!(published(&mut events).len(), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_queue_drops_and_counts() {
        let (recorder, mut events) = Recorder::new();
        for index in 0..QUEUE + 7 {
            recorder.publish(event("Evicted", &index.to_string(), &[]));
        }
        assert_eq!(recorder.dropped(), 7);
        assert_eq!(published(&mut events).len(), QUEUE);
    }
}
