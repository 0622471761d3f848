//! A watch that does not give up: it lists, follows, and lists again when it must, delivering objects by value.
//!
//! Between [`WatchEvent::InitStart`] and [`WatchEvent::InitDone`] the whole set is delivered; an object that was known before and is
//! not in it is gone. A start that is interrupted is followed by another [`WatchEvent::InitStart`], so a receiver
//! keeps its old set until `InitDone` and throws a half-filled one away.

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::client::ApiErrorKind;
use crate::random::Rng;
use crate::raw_object::RawObject;
use crate::readable::{Readable, Unreadable};

/// A streamed list without an object for this long: the server is taken not to know the feature.
const STREAMED_START_IDLE_MAX: Duration = Duration::from_secs(30);
/// A streamed list that takes longer has lost its final bookmark: changes still arrive, but it would never be complete.
const STREAMED_START_MAX: Duration = Duration::from_secs(60);

/// How many answers in a row prove that a kind is unknown: a server that has just started may not know all its kinds yet.
const ABSENT_ANSWERS: u32 = 3;

/// Failures further apart than this are not failures in a row. A complete list does not end the row: a server may give lists that cannot be
/// followed by a watch.
const FAILURE_GAP_MAX: Duration = Duration::from_secs(30);

/// One change, or a mark in the sequence of changes.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent<K> {
    /// A complete set follows.
    InitStart,
    /// One object of the complete set.
    Init(K),
    /// The set is complete.
    InitDone,
    /// An object was added or changed.
    Apply(K),
    /// An object is gone; this is its last state.
    Delete(K),
    /// An object exists but cannot be decoded, in the set or as a change. It is not deleted: a receiver should keep the last
    /// state it knows.
    Malformed(Box<Unreadable>),
}

/// Where watch events go.
pub trait EventSink<K>: Send {
    /// Takes one event; returns false if the receiver is gone and the watch should end.
    fn deliver(&mut self, event: WatchEvent<K>) -> impl Future<Output = bool> + Send;
}

impl<K: Send> EventSink<K> for mpsc::Sender<WatchEvent<K>> {
    async fn deliver(&mut self, event: WatchEvent<K>) -> bool {
        self.send(event).await.is_ok()
    }
}

/// A function that takes watch events.
#[derive(Debug)]
pub struct Callback<F>(pub F);

impl<K: Send, F: FnMut(WatchEvent<K>) + Send> EventSink<K> for Callback<F> {
    async fn deliver(&mut self, event: WatchEvent<K>) -> bool {
        (self.0)(event);
        true
    }
}

/// What to watch and how.
#[derive(Clone, Debug)]
pub struct WatchOptions {
    /// Label selector of the objects; `None` for all.
    pub labels: Option<String>,
    /// Field selector of the objects; `None` for all.
    pub fields: Option<String>,
    /// Start with a streamed list where the server can; it costs both sides less memory.
    pub streaming: bool,
    /// List again after this time, which repairs a watch that silently lost an event.
    pub relist: Option<Duration>,
    /// List again whenever this is notified, because events are known to be lost.
    pub relist_on: Option<Arc<Notify>>,
    /// End with [`WatchError::NotSynced`] if the first complete set takes longer than this (OPS-058).
    pub first_sync: Option<Duration>,
    /// End with [`WatchError::Absent`] after three answers in a row that there is no such kind, instead of asking for ever.
    pub until_absent: bool,
    /// The wait after failures in a row.
    pub backoff: Backoff,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self {
            labels: None,
            fields: None,
            streaming: true,
            relist: Some(Duration::from_secs(600)),
            relist_on: None,
            first_sync: Some(Duration::from_secs(120)),
            until_absent: false,
            backoff: Backoff::new(Duration::from_millis(800), Duration::from_secs(30)),
        }
    }
}

impl WatchOptions {
    fn config(&self, streaming: bool) -> watcher::Config {
        let mut config = watcher::Config::default();
        if let Some(labels) = &self.labels {
            config = config.labels(labels);
        }
        if let Some(fields) = &self.fields {
            config = config.fields(fields);
        }
        if streaming { config.streaming_lists() } else { config }
    }
}

/// Why a watch ended although it was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The first complete set was not delivered in time.
    #[error("{kind} could not be listed within {seconds} s, check the CRDs and the permissions: {last}")]
    NotSynced {
        /// The kind watched.
        kind: String,
        /// The time given.
        seconds: u64,
        /// The last error, or that there was none.
        last: String,
    },
    /// The server says that there is no such kind; see [`WatchOptions::until_absent`].
    #[error("{kind} is unknown to the API server, its CRD seems to be deleted")]
    Absent {
        /// The kind watched.
        kind: String,
    },
}

/// Watches all objects of a kind until `shutdown` is cancelled or the sink is closed.
pub async fn watch<K, S>(
    client: Client,
    options: WatchOptions,
    rng: Rng,
    mut sink: S,
    shutdown: CancellationToken,
) -> Result<(), WatchError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
    S: EventSink<K>,
{
    let mut watch = Watch::start(client, ApiResource::erase::<K>(&()), options, rng);
    loop {
        let event = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            event = watch.next() => event?,
        };
        let event = read(event).unwrap_or_else(|| {
            // All that is known of a deleted object that cannot be read is its metadata. So the set is taken anew, which shows it missing.
            watch.restart();
            WatchEvent::InitStart
        });
        if !sink.deliver(event).await {
            return Ok(());
        }
    }
}

/// An event with its object decoded. `None` if an object that cannot be decoded is gone.
fn read<K: DeserializeOwned + Resource>(event: Event<RawObject>) -> Option<WatchEvent<K>> {
    Some(match event {
        Event::Init => WatchEvent::InitStart,
        Event::InitApply(object) => readable(&object, WatchEvent::Init),
        Event::InitDone => WatchEvent::InitDone,
        Event::Apply(object) => readable(&object, WatchEvent::Apply),
        Event::Delete(object) => WatchEvent::Delete(Readable::of(object.text()).0.ok()?),
    })
}

fn readable<K: DeserializeOwned + Resource>(
    object: &RawObject,
    event: impl FnOnce(K) -> WatchEvent<K>,
) -> WatchEvent<K> {
    match Readable::of(object.text()).0 {
        Ok(object) => event(object),
        Err(unreadable) => WatchEvent::Malformed(Box::new(unreadable)),
    }
}

/// The watch of one kind. Of no type parameter, so that it is compiled once.
struct Watch {
    api: Api<RawObject>,
    kind: String,
    options: WatchOptions,
    rng: Rng,
    stream: BoxStream<'static, watcher::Result<Event<RawObject>>>,
    streaming: bool,
    phase: Phase,
    failures: u32,
    failed_at: Option<Instant>,
    /// How often in a row the server has said that there is no such kind.
    absences: u32,
    relist_at: Option<Instant>,
    /// Until the first complete set: when to give up.
    give_up_at: Option<Instant>,
    last_error: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing was delivered since the last start.
    Starting,
    /// Between the marks.
    Filling {
        since: Instant,
    },
    Following,
}

/// What made [`Watch::next`] wake.
enum Woken<T> {
    Item(T),
    Deadline(Deadline),
}

#[derive(Clone, Copy, Debug)]
enum Deadline {
    GiveUp,
    Relist,
    StreamedStart,
}

impl Watch {
    fn start(client: Client, resource: ApiResource, options: WatchOptions, rng: Rng) -> Self {
        let streaming = options.streaming;
        let api = Api::all_with(client, &resource);
        Self {
            stream: watcher::watcher(api.clone(), options.config(streaming)).boxed(),
            kind: resource.kind,
            give_up_at: options.first_sync.map(|limit| Instant::now() + limit),
            relist_at: None,
            streaming,
            phase: Phase::Starting,
            failures: 0,
            failed_at: None,
            absences: 0,
            last_error: "no error so far".to_owned(),
            api,
            options,
            rng,
        }
    }

    async fn next(&mut self) -> Result<Event<RawObject>, WatchError> {
        loop {
            let deadline = self.deadline();
            let requests = self.options.relist_on.clone();
            let woken = tokio::select! {
                biased;
                () = notified(requests.as_deref()) => Woken::Deadline(Deadline::Relist),
                item = self.stream.next() => Woken::Item(item),
                woken = reach(deadline) => woken,
            };
            match woken {
                Woken::Item(Some(Ok(event))) => {
                    self.note(&event);
                    return Ok(event);
                }
                Woken::Item(Some(Err(error))) => self.recover(&error).await?,
                // The watcher's stream has no end; if it ever had, starting over is right.
                Woken::Item(None) | Woken::Deadline(Deadline::Relist) => self.restart(),
                Woken::Deadline(Deadline::GiveUp) => return Err(self.not_synced()),
                Woken::Deadline(Deadline::StreamedStart) => self.stop_streaming(),
            }
        }
    }

    /// The first of the times at which the watch must act although nothing was delivered.
    fn deadline(&self) -> Option<(Instant, Deadline)> {
        let idle = Instant::now() + STREAMED_START_IDLE_MAX;
        let streamed_start = match self.phase {
            Phase::Starting => Some(idle),
            Phase::Filling { since } => Some(idle.min(since + STREAMED_START_MAX)),
            Phase::Following => None,
        };
        let streamed_start = streamed_start
            .filter(|_| self.streaming)
            .map(|at| (at, Deadline::StreamedStart));
        let give_up = self.give_up_at.map(|at| (at, Deadline::GiveUp));
        let relist = self.relist_at.map(|at| (at, Deadline::Relist));
        [give_up, relist, streamed_start]
            .into_iter()
            .flatten()
            .min_by_key(|(at, _)| *at)
    }

    /// Records the progress of the watch with this event.
    fn note(&mut self, event: &Event<RawObject>) {
        match event {
            Event::Init => self.phase = Phase::Filling { since: Instant::now() },
            Event::InitApply(_) => {}
            Event::InitDone => {
                self.phase = Phase::Following;
                self.give_up_at = None;
                self.absences = 0;
                // Spread, so that the relists of many watches started together do not coincide.
                self.relist_at = self
                    .options
                    .relist
                    .map(|every| Instant::now() + self.rng.jitter(every, 0.1));
            }
            Event::Apply(_) | Event::Delete(_) => self.failures = 0,
        }
    }

    async fn recover(&mut self, error: &watcher::Error) -> Result<(), WatchError> {
        let kind = self.kind.as_str();
        if self.streaming && self.phase == Phase::Starting && lacks_streaming(error) {
            tracing::debug!(kind, "server does not stream lists, listing instead");
            self.stop_streaming();
            return Ok(());
        }
        self.absences = match kind_of(error) == Some(ApiErrorKind::NotFound) {
            true => self.absences.saturating_add(1),
            false => 0,
        };
        if self.options.until_absent && self.absences >= ABSENT_ANSWERS {
            let kind = kind.to_owned();
            return Err(WatchError::Absent { kind });
        }
        self.last_error = watch_failure(kind, error);
        if self.absences == 1 && !self.options.until_absent {
            tracing::warn!(kind, "{}", self.last_error);
        }
        tracing::debug!(kind, error = %error, "watch failed, trying again");
        let now = Instant::now();
        let before = self
            .failed_at
            .replace(now)
            .filter(|at| now.duration_since(*at) < FAILURE_GAP_MAX)
            .map_or(0, |_| self.failures);
        self.failures = before.saturating_add(1);
        if self.failures == 1 && kind_of(error) == Some(ApiErrorKind::Gone) {
            // Ordinary after a pause; the list that follows repairs it.
            return Ok(());
        }
        let wait = self.rng.jitter(self.options.backoff.delay(self.failures), 0.5);
        let until = now + wait;
        // The wait itself is no time without failures.
        self.failed_at = Some(until);
        match self.give_up_at {
            Some(end) if end <= until => {
                tokio::time::sleep_until(end).await;
                Err(self.not_synced())
            }
            Some(_) | None => {
                tokio::time::sleep_until(until).await;
                Ok(())
            }
        }
    }

    fn stop_streaming(&mut self) {
        self.streaming = false;
        self.restart();
    }

    fn restart(&mut self) {
        self.stream = watcher::watcher(self.api.clone(), self.options.config(self.streaming)).boxed();
        self.phase = Phase::Starting;
        self.relist_at = None;
    }

    fn not_synced(&self) -> WatchError {
        WatchError::NotSynced {
            kind: self.kind.clone(),
            seconds: self.options.first_sync.unwrap_or_default().as_secs(),
            last: self.last_error.clone(),
        }
    }
}

/// A server without streamed lists refuses their parameters as invalid.
fn lacks_streaming(error: &watcher::Error) -> bool {
    matches!(error, watcher::Error::WatchStartFailed(error) if ApiErrorKind::of(error) == ApiErrorKind::Invalid)
}

/// Why a watch of a kind failed, with the remedy where its CustomResourceDefinition is missing.
pub fn watch_failure(kind: &str, error: &watcher::Error) -> String {
    match kind_of(error) {
        Some(ApiErrorKind::NotFound) => format!(
            "the API server does not serve {kind}: `kerf crds | kubectl apply --server-side -f -` installs its CustomResourceDefinition \
             (that of EC2NodeClass with --provider aws)"
        ),
        _ => format!("watch failed: {error}"),
    }
}

fn kind_of(error: &watcher::Error) -> Option<ApiErrorKind> {
    match error {
        watcher::Error::WatchError(status) => Some(ApiErrorKind::of_status(status)),
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => Some(ApiErrorKind::of(error)),
        watcher::Error::NoResourceVersion => None,
    }
}

async fn notified(requests: Option<&Notify>) {
    match requests {
        Some(requests) => requests.notified().await,
        None => std::future::pending().await,
    }
}

async fn reach<T>(deadline: Option<(Instant, Deadline)>) -> Woken<T> {
    match deadline {
        Some((at, what)) => {
            tokio::time::sleep_until(at).await;
            Woken::Deadline(what)
        }
        None => std::future::pending().await,
    }
}
