//! Leader election over a Lease: at most one process acts, and a process that is not sure stops.
//!
//! Expiry is judged by our own monotonic time since the lease was last seen to change, never by comparing clocks of
//! two machines, and every write carries the resource version it is based on.

mod access;
mod calls;
mod renewal;
mod step;

use std::future::Future;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use access::LeaseAccess;
pub use step::{Leadership, LeaseRecord, ObservedLease, Step, step};

use self::access::Attempt;
use self::calls::{Answer, LeaseCalls};
use crate::client::{ApiErrorKind, describe};
use crate::clock::Clock;
use crate::events::{Event, EventType, ObjectRef, Recorder};
use crate::metrics::{Counter, Gauge, Metrics, catalogue};
use crate::random::Rng;

/// Where a pod finds its own namespace.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The timing and the names of an election.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    /// Name of the Lease.
    pub name: String,
    /// Namespace of the Lease.
    pub namespace: String,
    /// The identity of this process.
    pub identity: String,
    /// How long the lease must be unchanged before another process may take it.
    pub lease_duration: Duration,
    /// How long renewing may fail before this process stops leading; shorter than the lease duration.
    pub renew_deadline: Duration,
    /// The longest time between two tries.
    pub retry_period: Duration,
    /// After this time without an answer another call begins beside the one that has none. Shorter than the renew deadline, so that one
    /// call without an answer does not cost the lease.
    pub hedging_delay: Duration,
}

impl ElectionConfig {
    /// The standard timing: 15 s lease, 10 s renew deadline, 2 s between tries (OPS-048), 2.5 s until another call begins.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, identity: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
            hedging_delay: Duration::from_millis(2500),
        }
    }
}

/// Why leadership ended without being given up, or could not be sought.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// The lease was not renewed in time or another process holds it. This process must end (OPS-050).
    #[error("leader election lost")]
    Lost,
    /// No namespace for the lease.
    #[error("not in a cluster, so set --leader-election-namespace (LEADER_ELECTION_NAMESPACE)")]
    NoNamespace,
}

/// The holder identity of this process: `<hostname>_<uuid>` (OPS-048).
pub fn identity(hostname: &str, rng: &Rng) -> String {
    format!("{hostname}_{}", rng.uuid())
}

/// The name of this machine or pod.
pub fn hostname() -> String {
    let from_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = from_kernel.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.as_deref().map(str::trim).filter(|name| !name.is_empty());
    name.unwrap_or("unknown").to_owned()
}

/// The lease's namespace: as configured, else the pod's own (OPS-012, OPS-047). The error says that there is neither.
pub fn lease_namespace(configured: Option<&str>) -> Result<String, LeaderError> {
    namespace_from(configured, Path::new(NAMESPACE_FILE))
}

fn namespace_from(configured: Option<&str>, file: &Path) -> Result<String, LeaderError> {
    if let Some(configured) = configured {
        return Ok(configured.to_owned());
    }
    let own = std::fs::read_to_string(file).unwrap_or_default().trim().to_owned();
    if own.is_empty() {
        Err(LeaderError::NoNamespace)
    } else {
        Ok(own)
    }
}

/// A write of the lease.
#[derive(Clone, Copy)]
struct LeaseWrite {
    /// The time of renewal that it wrote, in microseconds as leases have it.
    renew_time: i64,
    /// When it began.
    began: Duration,
}

/// One process's part in an election.
pub struct Elector {
    api: Api<Lease>,
    config: ElectionConfig,
    clock: Clock,
    rng: Rng,
    recorder: Option<Recorder>,
    status: Option<Gauge>,
    slowpath: Option<Counter>,
    access: LeaseAccess,
    /// The zero of the time passed to [`step`].
    epoch: Instant,
    observed: Option<ObservedLease>,
    lease: Option<Lease>,
    leadership: Option<Leadership>,
    /// Writes since the last one that succeeded.
    writes: Vec<LeaseWrite>,
}

impl Elector {
    /// An elector that holds nothing. The client must have no rate limit in common with others (OPS-049).
    pub fn new(client: Client, config: ElectionConfig, clock: Clock, rng: Rng) -> Self {
        Self {
            api: Api::namespaced(client, &config.namespace),
            config,
            clock,
            rng,
            recorder: None,
            status: None,
            slowpath: None,
            access: LeaseAccess::default(),
            epoch: Instant::now(),
            observed: None,
            lease: None,
            leadership: None,
            writes: Vec::new(),
        }
    }

    /// Publishes an Event on the Lease when this process becomes the leader (OPS-052).
    #[must_use]
    pub fn recorder(mut self, recorder: Recorder) -> Self {
        self.recorder = Some(recorder);
        self
    }

    /// Keeps `access` up to date with whether the lease can be read and written, for a readiness check.
    #[must_use]
    pub fn access(mut self, access: &LeaseAccess) -> Self {
        self.access = access.clone();
        self
    }

    /// Reports whether this process leads (OPS-179).
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        let (status, slowpath) = (
            metrics.gauge(&catalogue::LEADER_STATUS),
            metrics.counter(&catalogue::LEADER_SLOWPATH),
        );
        status.set(&[&self.config.name], 0.0);
        slowpath.add(&[&self.config.name], 0.0);
        (self.status, self.slowpath) = (Some(status), Some(slowpath));
        self
    }

    /// Runs `lead` while this process leads: waits for leadership, runs it, renews the lease beside it, and gives the
    /// lease back at the end. `Ok(None)` when cancelled before it led; [`LeaderError::Lost`] ends `lead` at once.
    pub async fn run<T>(
        mut self,
        shutdown: &CancellationToken,
        lead: impl Future<Output = T>,
    ) -> Result<Option<T>, LeaderError> {
        let elected = tokio::select! {
            biased;
            () = shutdown.cancelled() => false,
            () = self.acquire() => true,
        };
        if !elected {
            return Ok(None);
        }
        let result = tokio::select! {
            biased;
            lost = self.hold() => Err(lost),
            done = lead => Ok(Some(done)),
        };
        if result.is_ok() {
            self.release().await;
        }
        self.set_status(0.0);
        result
    }

    /// Returns once this process leads.
    pub async fn acquire(&mut self) {
        loop {
            let was_read = self.observe().await;
            let step = self.decide();
            if step == Step::Wait && was_read {
                // Somebody else leads, so a write that failed before is not wanted any more.
                self.access.works(&self.config);
            }
            if step == Step::Acquire && self.take().await {
                tracing::info!(lease = %self.config.name, identity = %self.config.identity, "became leader");
                self.set_status(1.0);
                self.announce();
                return;
            }
            // Spread below the retry period, so that a released lease is acquired within it.
            tokio::time::sleep(self.rng.jitter(self.config.retry_period * 3 / 4, 0.25)).await;
        }
    }

    /// Renews until that fails for too long; never returns while this process leads.
    pub async fn hold(&mut self) -> LeaderError {
        loop {
            tokio::time::sleep(self.pause()).await;
            if !self.renew().await {
                tracing::error!(lease = %self.config.name, "leader election lost");
                self.leadership = None;
                self.set_status(0.0);
                return LeaderError::Lost;
            }
        }
    }

    /// How long the next renewal waits. Counted from the beginning of the last one: where calls are slow, there is no time to lose.
    fn pause(&self) -> Duration {
        let renewed_at = self.leadership.map_or(Duration::ZERO, |held| held.renewed_at);
        let since = self.now().saturating_sub(renewed_at);
        self.config.retry_period.saturating_sub(since)
    }

    /// Gives the lease back, so that a successor need not wait (OPS-051). Failing is fine: it expires.
    pub async fn release(&mut self) {
        if self.leadership.take().is_none() {
            return;
        }
        let Some(mut lease) = self.lease.take() else { return };
        let now = MicroTime(self.clock.now());
        if let Some(spec) = &mut lease.spec {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            spec.renew_time = Some(now.clone());
            spec.acquire_time = Some(now);
        }
        let post = PostParams::default();
        let replace = self.api.replace(&self.config.name, &post, &lease);
        if let Ok(Err(error)) = tokio::time::timeout(self.config.retry_period, replace).await {
            tracing::info!(error = %describe(&error), "lease was not given back and will expire");
        }
    }

    /// How long this process still leads without another renewal.
    fn left(&self) -> Duration {
        let until = self.leadership.map_or(Duration::ZERO, |held| held.until);
        until.saturating_sub(self.now())
    }

    /// Until when a write that began at `began` and is known to have succeeded lets this process lead. Others may take the lease once it has
    /// not changed for its duration, and may have seen the change as early as the write began; a retry period is left for ending the work.
    fn leads_until(&self, began: Duration) -> Duration {
        let config = &self.config;
        let safe = began + config.lease_duration.saturating_sub(config.retry_period);
        safe.min(self.now() + config.renew_deadline)
    }

    fn decide(&self) -> Step {
        step(
            &self.config.identity,
            self.observed.as_ref(),
            self.leadership,
            self.now(),
        )
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }

    /// Reads the lease; returns whether it could be read.
    async fn observe(&mut self) -> bool {
        let mut calls = LeaseCalls::new(&self.api, &self.config.name);
        let mut delays = 0;
        let error = loop {
            calls.read();
            match tokio::time::timeout(self.config.hedging_delay, calls.answer()).await {
                Ok(Some(Answer::Read(Ok(lease)))) => {
                    self.note_lease(lease);
                    return true;
                }
                Ok(Some(Answer::Read(Err(error)))) => break describe(&error),
                Ok(Some(Answer::Written { .. }) | None) => return false,
                // The call goes on, and another one begins.
                Err(_) => {
                    delays += 1;
                    self.note_no_answer(Attempt::Read, delays);
                }
            }
        };
        self.access.fails(&self.config, Attempt::Read, &error);
        false
    }

    /// Takes note of the lease as it was read or written. Returns whether it shows a write of this process that was not known to have
    /// succeeded.
    fn note_lease(&mut self, lease: Option<Box<Lease>>) -> bool {
        let lease = lease.map(|lease| *lease);
        let record = lease.as_ref().map(record_of);
        let unchanged = self.observed.as_ref().is_some_and(|seen| seen.record == record);
        if !unchanged {
            self.observed = Some(ObservedLease {
                record,
                changed_at: self.now(),
            });
        }
        let written = lease.as_ref().and_then(renew_time);
        self.lease = lease;
        let own = self.writes.iter().find(|write| Some(write.renew_time) == written);
        let Some(began) = own.map(|write| write.began) else {
            return false;
        };
        self.note_success(began);
        true
    }

    /// Takes note of a write that succeeded.
    fn note_success(&mut self, began: Duration) {
        self.leadership = Some(Leadership {
            renewed_at: began,
            until: self.leads_until(began),
        });
        self.writes.clear();
        self.access.works(&self.config);
    }

    /// Begins to write this process into the lease as its holder.
    fn begin_write(&mut self, calls: &mut LeaseCalls) {
        let (wanted, began) = (self.next_lease(self.clock.now()), self.now());
        self.writes
            .extend(renew_time(&wanted).map(|renew_time| LeaseWrite { renew_time, began }));
        calls.write(wanted, began);
    }

    /// Writes this process into the lease as its first holder or the next one; returns whether that succeeded.
    async fn take(&mut self) -> bool {
        let mut calls = LeaseCalls::new(&self.api, &self.config.name);
        let limit = self.config.renew_deadline;
        self.begin_write(&mut calls);
        match tokio::time::timeout(limit, calls.answer()).await {
            Ok(Some(Answer::Written { began, result })) => match result {
                Ok(lease) => {
                    self.note_lease(Some(lease));
                    self.note_success(began);
                    return true;
                }
                Err(error) => self.note_failure(&error),
            },
            Ok(Some(Answer::Read(_)) | None) => {}
            Err(_) => self.access.fails(&self.config, Attempt::Write, &no_answer(limit)),
        }
        // Whether it was carried out is seen by reading; leading begins with a write whose answer is known.
        self.writes.clear();
        false
    }

    /// Logs that an attempt had no answer for so many hedging delays: after the first as information, because a loaded API server answers late
    /// and a late answer counts; after more as a fault, which readiness shows (deviation at OPS-048 and OPS-050).
    fn note_no_answer(&self, attempt: Attempt, delays: u32) {
        let unanswered = no_answer(self.config.hedging_delay.saturating_mul(delays));
        if delays > 1 {
            return self.access.fails(&self.config, attempt, &unanswered);
        }
        tracing::info!(
            lease = %self.config.name,
            namespace = %self.config.namespace,
            "a call about the leader election lease had {unanswered}; waiting for it, and making another one meanwhile"
        );
    }

    fn note_failure(&self, error: &kube::Error) {
        match ApiErrorKind::of(error) {
            // Another process wrote first, as it may; or an earlier write of this one was carried out.
            ApiErrorKind::Conflict | ApiErrorKind::AlreadyExists => {
                tracing::debug!(error = %describe(error), "the lease was written meanwhile");
                self.access.works(&self.config);
            }
            _ => self.access.fails(&self.config, Attempt::Write, &describe(error)),
        }
    }

    fn next_lease(&self, now: Timestamp) -> Lease {
        let mut lease = self.lease.clone().unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(self.config.name.clone()),
                namespace: Some(self.config.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        let ours = self.leadership.is_some();
        let spec = lease.spec.get_or_insert_with(LeaseSpec::default);
        if !ours {
            let taken_before = self.lease.is_some();
            spec.lease_transitions = Some(
                spec.lease_transitions
                    .unwrap_or(0)
                    .saturating_add(i32::from(taken_before)),
            );
            spec.acquire_time = Some(MicroTime(now));
        }
        spec.holder_identity = Some(self.config.identity.clone());
        spec.lease_duration_seconds = i32::try_from(self.config.lease_duration.as_secs()).ok();
        spec.renew_time = Some(MicroTime(now));
        lease
    }

    fn announce(&self) {
        let (Some(recorder), Some(lease)) = (&self.recorder, &self.lease) else {
            return;
        };
        let Some(object) = ObjectRef::of(lease) else { return };
        recorder.publish(Event {
            object,
            kind: EventType::Normal,
            reason: "LeaderElection".into(),
            message: format!("{} became leader", self.config.identity),
            dedupe: Vec::new(),
            dedupe_timeout: None,
        });
    }

    fn set_status(&self, value: f64) {
        if let Some(status) = &self.status {
            status.set(&[&self.config.name], value);
        }
    }
}

/// When a lease was renewed, in microseconds.
fn renew_time(lease: &Lease) -> Option<i64> {
    Some(lease.spec.as_ref()?.renew_time.as_ref()?.0.as_microsecond())
}

fn no_answer(limit: Duration) -> String {
    format!("no answer within {limit:?}")
}

fn record_of(lease: &Lease) -> LeaseRecord {
    let spec = lease.spec.clone().unwrap_or_default();
    LeaseRecord {
        // An empty name is how a holder gives the lease back.
        holder: spec.holder_identity.filter(|holder| !holder.is_empty()),
        lease_duration: Duration::from_secs(spec.lease_duration_seconds.unwrap_or(0).max(0).unsigned_abs().into()),
        renewed: spec.renew_time.map(|time| time.0),
        resource_version: lease.metadata.resource_version.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Seed;

    #[test]
    fn the_identity_starts_with_the_host() {
        // OPS-048, KWK-094
        let identity = identity("karpenter-abc", &Seed(1).rng());
        let (host, id) = identity.split_once('_').expect("an underscore");
        assert_eq!((host, id.len()), ("karpenter-abc", 36));
    }

    #[test]
    fn the_namespace_comes_from_the_option_then_from_the_pod() {
        let missing = Path::new("/nowhere/namespace");
        // OPS-012
        assert_eq!(namespace_from(Some("ops"), missing).expect("configured"), "ops");
        let error = namespace_from(None, missing)
            .expect_err("outside a cluster")
            .to_string();
        assert!(error.contains("--leader-election-namespace"), "{error}");
        // OPS-047
        let file = std::env::temp_dir().join(format!("kerf-namespace-{}", std::process::id()));
        std::fs::write(&file, "kube-system\n").expect("writes");
        assert_eq!(namespace_from(None, &file).expect("the pod's"), "kube-system");
        std::fs::remove_file(&file).expect("removes");
    }
}
