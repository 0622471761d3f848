//! One method's turn: its candidates, what budgets leave, and a command if there is one. What was found on the way is told and counted.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_disruption::{
    Allowance, Candidate, Class, Command, Staying, drift, drifted, emptiness, empty, revalidate, statically_drifted,
    what_if_options,
};
use kerf_model::budget::DisruptionReason;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::{CancellationToken, Event, ObjectRef, ReconcileError};

use super::consolidation::Seen;
use super::events;
use super::memory::Memory;
use super::registry::Registry;
use super::sorting::Sorted;
use super::static_drift::{Replacing, replace};
use crate::context::Context;
use crate::provisioning::pass::solver_options;

/// How long a consolidation command is waited with before it is looked at again (DIS-127).
pub(super) const WAIT: Duration = Duration::from_secs(15);
/// What the gauge shows where no budget limits (DIS-071).
const NO_LIMIT: u32 = i32::MAX.unsigned_abs();

/// The ways to disrupt, in the order they get their turn (DIS-005).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Method {
    /// Nodes nothing needs.
    Emptiness,
    /// Nodes of pools with a fixed number of nodes that are no longer what their pool asks for.
    StaticDrift,
    /// Nodes that are no longer what their pool asks for.
    Drift,
    /// Nodes that can go together, with at most one cheaper machine in their place.
    Multi,
    /// Nodes that can go, or become cheaper, one by one.
    Single,
}

impl Method {
    pub(super) const ORDER: [Self; 5] = [
        Self::Emptiness,
        Self::StaticDrift,
        Self::Drift,
        Self::Multi,
        Self::Single,
    ];

    /// The reason its commands have, and the one its budgets are read for.
    pub(super) const fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::Multi | Self::Single => DisruptionReason::Underutilized,
        }
    }

    /// Its name in logs.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Emptiness => "Emptiness",
            Self::StaticDrift => "StaticDrift",
            Self::Drift => "Drift",
            Self::Multi => "MultiNodeConsolidation",
            Self::Single => "SingleNodeConsolidation",
        }
    }

    /// The label `consolidation_type` of its metrics (DIS-268).
    pub(super) const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::Multi => "multi",
            Self::Single => "single",
        }
    }

    const fn class(self) -> Class {
        match self {
            Self::Emptiness | Self::Multi | Self::Single => Class::Graceful,
            Self::StaticDrift | Self::Drift => Class::Eventual,
        }
    }
}

/// A command, and the cluster it is about.
pub(super) struct Decided {
    pub(super) command: Command,
    /// What it was decided on: machines that have come since serve pods it counts as waiting.
    pub(super) decided_on: Arc<Snapshot>,
    /// The cluster when it was looked at last.
    pub(super) snapshot: Arc<Snapshot>,
    /// What a replacement of a static pool's node holds until the command has started.
    pub(super) replacing: Option<Replacing>,
}

impl Decided {
    /// A command that holds nothing.
    pub(super) fn new(command: Command, snapshot: Arc<Snapshot>) -> Self {
        Self {
            command,
            decided_on: Arc::clone(&snapshot),
            snapshot,
            replacing: None,
        }
    }
}

/// Decides for one method after the other.
pub(super) struct Turn<'a> {
    pub(super) context: &'a Context,
    pub(super) registry: &'a Registry,
    pub(super) memory: &'a Memory,
    pub(super) shutdown: &'a CancellationToken,
}

impl Turn<'_> {
    /// What the method wants done now (DIS-007, DIS-017).
    pub(super) async fn decide(&self, method: Method) -> Result<Vec<Decided>, ReconcileError> {
        let now = self.context.now();
        // DIS-315: what changes from here on is not taken as considered.
        let epoch = self.context.cluster.consolidation_epoch();
        let snapshot = self.context.cluster.snapshot(now);
        let sorted = self.sort(&snapshot, method, now);
        let decided = match method {
            Method::Emptiness => {
                let (eligible, held) = empty(&sorted.candidates.free);
                self.tell_held(&snapshot, &held, events::unconsolidatable);
                match self.admit(method, &snapshot, eligible.len(), now) {
                    Some(allowance) => self.emptiness(&eligible, allowance).await,
                    None => None,
                }
            }
            Method::StaticDrift => {
                let eligible = statically_drifted(&sorted.candidates.free);
                let allowance = self.admit(method, &snapshot, eligible.len(), now);
                let replaced = allowance.map(|allowance| replace(self.context, &snapshot, &eligible, &allowance));
                return Ok(replaced.unwrap_or_default());
            }
            Method::Drift => {
                let eligible = drifted(&sorted.candidates.free);
                match self.admit(method, &snapshot, eligible.len(), now) {
                    Some(allowance) => self.drift(snapshot, eligible, allowance, now).await?,
                    None => None,
                }
            }
            Method::Multi | Method::Single => {
                let seen = Seen {
                    epoch,
                    snapshot,
                    sorted,
                    now,
                };
                self.consolidate(method, seen).await?
            }
        };
        Ok(decided.into_iter().collect())
    }

    /// Counts who may be chosen from, and says what budgets leave of them; nothing where there is nobody (DIS-019).
    pub(super) fn admit(
        &self,
        method: Method,
        snapshot: &Snapshot,
        eligible: usize,
        now: Timestamp,
    ) -> Option<Allowance> {
        let gauge = self.context.metrics.gauge(&catalogue::DISRUPTION_ELIGIBLE_NODES);
        gauge.set(&[method.reason().label()], eligible as f64);
        (eligible > 0).then(|| self.allowance(snapshot, method, now))
    }

    /// Sorts the nodes, and tells what keeps the blocked ones and what protects pods.
    pub(super) fn sort(&self, snapshot: &Arc<Snapshot>, method: Method, now: Timestamp) -> Arc<Sorted> {
        let sorted = self.memory.sorting.sort(snapshot, method.class(), self.registry, now);
        let blocked = &sorted.candidates.blocked;
        for (index, blocker) in blocked.iter().filter(|(_, blocker)| blocker.is_event()) {
            self.tell(snapshot, *index, || blocker.message(), events::blocked);
        }
        for event in sorted.annotated.iter().filter_map(|pod| events::protection(pod, now)) {
            self.context.recorder.publish(event);
        }
        sorted
    }

    fn tell_held(&self, snapshot: &Snapshot, held: &[Staying], event: fn(ObjectRef, String) -> Event) {
        for held in held {
            self.tell(snapshot, held.index, || held.why.message(), event);
        }
    }

    pub(super) fn tell(
        &self,
        snapshot: &Snapshot,
        index: usize,
        message: impl Fn() -> String,
        event: fn(ObjectRef, String) -> Event,
    ) {
        let Some(node) = snapshot.nodes.get(index) else { return };
        let recorder = &self.context.recorder;
        for object in events::objects(self.context, node) {
            let mut event = event(object, String::new());
            // Most nodes are kept by the same as ten seconds ago.
            if recorder.is_due(&event) {
                event.message = message();
                recorder.publish(event);
            }
        }
    }

    /// What budgets leave, told and counted (DIS-084, DIS-085).
    pub(super) fn allowance(&self, snapshot: &Snapshot, method: Method, now: Timestamp) -> Allowance {
        let allowance = Allowance::new(snapshot, method.reason(), now);
        let metrics = &self.context.metrics;
        let allowed = metrics.gauge(&catalogue::NODEPOOLS_ALLOWED_DISRUPTIONS);
        let consumed = metrics.gauge(&catalogue::NODEPOOLS_NODES_CONSUMING_BUDGETS);
        for pool in allowance.pools() {
            let labels = [&*pool.pool, method.reason().as_str()];
            allowed.set(&labels, f64::from(pool.allowed.min(NO_LIMIT)));
            consumed.set(&labels, f64::from(pool.consumed));
            if pool.is_closed() {
                self.context
                    .recorder
                    .publish(events::budget_closed(pool, method.reason()));
            }
        }
        allowance
    }

    /// DIS-153 to DIS-156: what is still empty after the wait goes.
    async fn emptiness(&self, eligible: &[Candidate], mut allowance: Allowance) -> Option<Decided> {
        let command = emptiness(eligible, &mut allowance)?;
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return None,
            () = tokio::time::sleep(WAIT) => {}
        }
        let now = self.context.now();
        let snapshot = self.context.cluster.snapshot(now);
        let sorted = self.sort(&snapshot, Method::Emptiness, now);
        let (eligible, _) = empty(&sorted.candidates.free);
        let mut allowance = self.allowance(&snapshot, Method::Emptiness, now);
        let nominated = |name: &str| {
            let until = snapshot.node(name).and_then(|node| node.nominated_until);
            until.is_some_and(|until| now < until)
        };
        let result = revalidate(&command, &eligible, &nominated, &mut allowance);
        let counter = self.context.metrics.counter(&catalogue::DISRUPTION_FAILED_VALIDATIONS);
        counter.add(&[Method::Emptiness.consolidation_type()], result.failed as f64);
        if result.command.is_none() {
            tracing::debug!(command = %command.short(), "abandoning empty node consolidation attempt due to pod churn, command is no longer valid");
        }
        result.command.map(|command| Decided::new(command, snapshot))
    }

    /// DIS-241.
    async fn drift(
        &self,
        snapshot: Arc<Snapshot>,
        drifted: Vec<Candidate>,
        allowance: Allowance,
        now: Timestamp,
    ) -> Result<Option<Decided>, ReconcileError> {
        let options = what_if_options(&solver_options(&self.context.options, &self.context.tuning));
        let shared = Arc::clone(&snapshot);
        let work = move || drift(&shared, &drifted, &allowance, now, &options);
        let (command, held) = self.context.compute(work).await??;
        self.tell_held(&snapshot, &held, events::blocked);
        Ok(command.map(|command| Decided::new(command, snapshot)))
    }
}
