//! Deletes claims whose instances the provider announces to interrupt (the controller `interruption`).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use kerf_api::{NodeClaim, annotations};
use kerf_cloud::{Interruption, InterruptionAction, InterruptionKind};
use kerf_runtime::{Backoff, CancellationToken, Event, EventType, ObjectRef};
use kube::Api;
use kube::api::ListParams;

use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::{disrupt, set_annotation};
use crate::context::Context;
use crate::deadline::rfc3339;
use crate::reconciler::LeaderTask;

const NAME: &str = "interruption";
/// Signals that are handled at the same time (AWS-301).
const PARALLEL: usize = 10;
/// The pauses after the provider's signals could not be read (AWS-302). They end far below the usual 1000 s: a warning two minutes
/// before the end of an instance must not wait behind a short failure.
const RETRY: Backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(30));

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
        let claims = match self.claims(signal).await {
            Ok(claims) => claims,
            Err(error) => {
                tracing::error!(error = %error, "failed listing NodeClaims for an interruption");
                return;
            }
        };
        let mut failed = false;
        for claim in claims {
            if let Err(error) = self.interrupt(&claim, signal.kind).await {
                failed = true;
                tracing::error!(NodeClaim = claim_facts::name(&claim), error = %error, "failed acting on an interruption");
            }
        }
        if failed {
            return;
        }
        if let Err(error) = self.context.provider.acknowledge(signal).await {
            tracing::error!(error = %error, "failed acknowledging an interruption");
        }
    }

    /// The claims of a signal's instances. The provider may know a claim that the watch has not delivered yet, and an acknowledged signal
    /// is never sent again. So the API server is asked about instances whose claim the cluster state does not have.
    async fn claims(&self, signal: &Interruption) -> Result<Vec<Arc<NodeClaim>>, kube::Error> {
        let cluster = &self.context.cluster;
        let (mut claims, mut unknown) = (Vec::new(), Vec::new());
        for id in &signal.provider_ids {
            let known = cluster.claims_by_provider_id(id);
            if known.is_empty() {
                unknown.push(id.as_str());
            }
            claims.extend(known);
        }
        if unknown.is_empty() {
            return Ok(claims);
        }
        let api = Api::<NodeClaim>::all(self.context.client.clone());
        let listed = api.list(&ListParams::default()).await?.items.into_iter();
        let is_meant = |claim: &NodeClaim| {
            cluster.serves(&claim.spec.node_class_ref)
                && claim_facts::provider_id(claim).is_some_and(|id| unknown.contains(&id))
        };
        claims.extend(listed.filter(is_meant).map(Arc::new));
        Ok(claims)
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
            tracing::info!(
                NodeClaim = claim_facts::name(claim),
                kind = kind.label(),
                "initiating delete from interruption message"
            );
        }
        Ok(())
    }

    /// Publishes an event on a claim and its Nodes.
    fn publish(&self, claim: &NodeClaim, (kind, reason, message): (EventType, &'static str, &str)) {
        let id = claim_facts::provider_id(claim);
        let nodes = id.map(|id| self.context.cluster.nodes_by_provider_id(id));
        let nodes = nodes.iter().flatten().filter_map(|node| ObjectRef::of(&**node));
        for object in ObjectRef::of(claim).into_iter().chain(nodes) {
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

    /// Sets the deadline of the node's drain to now: waiting for pods on a broken machine is useless. A deadline that is there stays
    /// (AWS-318).
    async fn set_deadline_to_now(&self, claim: &NodeClaim) -> Result<(), kube::Error> {
        let key = annotations::TERMINATION_TIMESTAMP;
        let written = claim.metadata.annotations.as_ref();
        if written.is_some_and(|all| all.contains_key(key)) {
            return Ok(());
        }
        let written = set_annotation(&self.context, claim, key, &rfc3339(self.context.now())).await;
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
        let mut failures = 0;
        loop {
            let signals = tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                signals = self.context.provider.interruptions() => signals,
            };
            let pause = match signals {
                Ok(signals) => {
                    failures = 0;
                    let this = &*self;
                    futures::stream::iter(signals)
                        .for_each_concurrent(PARALLEL, |signal| async move { this.act(&signal).await })
                        .await;
                    Duration::ZERO
                }
                Err(error) => {
                    failures += 1;
                    tracing::error!(error = %error, "failed receiving interruptions");
                    RETRY.delay(failures)
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
