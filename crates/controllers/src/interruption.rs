//! Deletes claims whose instances the provider announces to interrupt (the controller `interruption`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::{NodeClaim, annotations};
use kerf_cloud::{Interruption, InterruptionAction, InterruptionKind};
use kerf_runtime::{CancellationToken, Event, EventType, ObjectRef};

use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::{disrupt, set_annotation};
use crate::context::Context;
use crate::deadline::rfc3339;
use crate::reconciler::LeaderTask;

const NAME: &str = "interruption";
/// The pause after the provider's signals could not be read.
const RETRY: Duration = Duration::from_secs(10);

/// Type, reason and text of the event for a signal.
const fn event(kind: InterruptionKind) -> (EventType, &'static str, &'static str) {
    let warning = EventType::Warning;
    match kind {
        InterruptionKind::SpotReclaim => (warning, "SpotInterrupted", "the cloud takes the spot instance back"),
        InterruptionKind::RebalanceRecommendation => {
            let risk = "the spot instance is at a higher risk of being taken back";
            (EventType::Normal, "SpotRebalanceRecommendation", risk)
        }
        InterruptionKind::ReservationReclaim => {
            let ends = "the capacity reservation of the instance ends";
            (warning, "CapacityReservationInstanceInterrupted", ends)
        }
        InterruptionKind::ScheduledChange => (warning, "InstanceUnhealthy", "maintenance of the instance is scheduled"),
        InterruptionKind::InstanceStopped => (warning, "InstanceStopping", "the instance stops"),
        InterruptionKind::InstanceTerminated => (warning, "InstanceTerminating", "the instance is being terminated"),
        InterruptionKind::InstanceUnhealthy => (warning, "InstanceUnhealthy", "the instance does not answer"),
        InterruptionKind::SystemUnhealthy => (
            warning,
            "InstanceUnhealthy",
            "the system below the instance is impaired",
        ),
        InterruptionKind::StatusEvent => (warning, "InstanceUnhealthy", "the instance has a maintenance event"),
    }
}

/// Acts on signals until shutdown.
pub(crate) struct Interruptions {
    context: Context,
}

impl Interruptions {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
        })
    }

    /// Acts on one signal. It is acknowledged when all its claims are handled; otherwise the provider sends it again.
    async fn act(&self, signal: &Interruption) {
        let mut failed = false;
        for id in &signal.provider_ids {
            for claim in self.context.cluster.claims_by_provider_id(id) {
                if let Err(error) = self.interrupt(&claim, signal.kind).await {
                    failed = true;
                    tracing::error!(NodeClaim = claim_facts::name(&claim), error = %error, "failed acting on an interruption");
                }
            }
        }
        if failed {
            return;
        }
        if let Err(error) = self.context.provider.acknowledge(signal).await {
            tracing::error!(error = %error, "failed acknowledging an interruption");
        }
    }

    async fn interrupt(&self, claim: &NodeClaim, kind: InterruptionKind) -> Result<(), kube::Error> {
        self.publish(claim, event(kind));
        self.context.provider.note_interruption(claim, kind, self.context.now());
        match kind.action() {
            InterruptionAction::Report => return Ok(()),
            InterruptionAction::Drain => {}
            InterruptionAction::Terminate => self.set_deadline_to_now(claim).await?,
        }
        if disrupt(&self.context, claim, kind.label()).await? {
            self.publish(
                claim,
                (
                    EventType::Warning,
                    "TerminatingOnInterruption",
                    "the node goes because of an interruption",
                ),
            );
            let name = claim_facts::name(claim);
            tracing::info!(
                NodeClaim = name,
                kind = kind.label(),
                "initiating delete from interruption message"
            );
        }
        Ok(())
    }

    /// Publishes an event on a claim and its Nodes.
    fn publish(&self, claim: &NodeClaim, (kind, reason, message): (EventType, &'static str, &str)) {
        let id = claim_facts::provider_id(claim).unwrap_or_default();
        let nodes = self.context.cluster.nodes_by_provider_id(id);
        let nodes = nodes.iter().map(|node| ObjectRef::of(&**node));
        for object in std::iter::once(ObjectRef::of(claim)).chain(nodes) {
            self.context.recorder.publish(Event {
                dedupe: vec![object.kind.clone(), object.uid.clone()],
                object,
                kind,
                reason: reason.into(),
                message: message.to_owned(),
                dedupe_timeout: None,
            });
        }
    }

    /// Sets the deadline of the node's drain to now: waiting for pods on a broken machine is useless. An earlier deadline stays.
    async fn set_deadline_to_now(&self, claim: &NodeClaim) -> Result<(), kube::Error> {
        let now = self.context.now();
        let known = crate::deadline::deadline(claim).ok().flatten();
        if known.is_some_and(|known| known <= now) {
            return Ok(());
        }
        let written = set_annotation(&self.context, claim, annotations::TERMINATION_TIMESTAMP, &rfc3339(now)).await;
        written.map(drop)
    }
}

#[async_trait]
impl LeaderTask for Interruptions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn notify(&self, _change: &Change) {}

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        loop {
            let signals = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                signals = self.context.provider.interruptions() => signals,
            };
            let pause = match signals {
                Ok(signals) => {
                    for signal in &signals {
                        self.act(signal).await;
                    }
                    Duration::ZERO
                }
                Err(error) => {
                    tracing::error!(error = %error, "failed receiving interruptions");
                    RETRY
                }
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}
