//! Evaluates NodeOverlays (SCH-361 to SCH-377; gate NodeOverlay).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::conditions::VALIDATION_SUCCEEDED;
use kerf_api::{ConditionSet, NodeOverlay};
use kerf_cloud::{OverlayPool, OverlayProvider, OverlayStatus, evaluate};
use kerf_runtime::client::{Lock, Written, name_of, patch_status, unless_conflict};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kube::Api;

use super::refresh::refresh;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

/// The time until overlays are evaluated again when nothing changes (SCH-362).
const EVALUATE_AGAIN_AFTER: Duration = Duration::from_secs(6 * 3600);

/// `nodeoverlay.controller`.
pub(crate) struct OverlayEvaluation {
    context: Context,
    provider: Arc<OverlayProvider>,
    work: WorkLoop<()>,
}

impl OverlayEvaluation {
    /// The controller; it publishes to this provider.
    pub(crate) fn new(context: &Context, provider: &Arc<OverlayProvider>) -> Arc<Self> {
        Arc::new(Self {
            work: WorkLoop::new(context, "nodeoverlay.controller", RateLimit::SHARED),
            context: context.clone(),
            provider: Arc::clone(provider),
        })
    }
}

/// An overlay with the result of its evaluation as condition (SCH-361).
fn with_status(overlay: &NodeOverlay, status: &OverlayStatus, now: Timestamp) -> NodeOverlay {
    let mut after = overlay.clone();
    let mut conditions = ConditionSet::new(&mut after, now);
    match status.reason() {
        None => conditions.set_true(VALIDATION_SUCCEEDED),
        Some(reason) => conditions.set_false(VALIDATION_SUCCEEDED, reason, status.message()),
    };
    after
}

impl Reconciler for OverlayEvaluation {
    type Key = ();

    fn work(&self) -> &WorkLoop<()> {
        &self.work
    }

    // SCH-362, SCH-488
    fn keys_of(&self, change: &Change) -> Vec<()> {
        let changed = match change {
            Change::Overlay(overlay) => overlay.generation_changed(),
            Change::Pool(pool) => pool.generation_changed(),
            Change::Class(class) => class.differs(|class| (class.uid.clone(), class.generation)),
            Change::Pod(_) | Change::Node(_) | Change::Claim(_) | Change::Buffer(_) => false,
        };
        changed.then_some(()).into_iter().collect()
    }

    async fn reconcile(&self, _key: &()) -> Result<Outcome, ReconcileError> {
        let (context, rules) = (&self.context, &self.provider.inner().profile().vocabulary.labels);
        let overlays = context.cluster.overlays();
        let (mut pools, mut errors) = (Vec::new(), Vec::new());
        for pool in context.cluster.pools() {
            match self.provider.inner().instance_types(&pool).await {
                Ok(catalogue) => pools.extend(OverlayPool::new(&pool, catalogue, rules, &context.interner)),
                // SCH-375: the others are still evaluated.
                Err(error) => errors.push(format!("{}: {error}", name_of(&*pool)?)),
            }
        }
        let written: Vec<NodeOverlay> = overlays.iter().map(|overlay| NodeOverlay::clone(overlay)).collect();
        let evaluation = evaluate(&written, &pools, rules, &context.interner);
        // The other autoscaler writes statuses where this process observes.
        let api: Api<NodeOverlay> = Api::all(context.client.clone());
        let reported = written.iter().filter(|_| !context.options.observe);
        for overlay in reported {
            let name = name_of(overlay)?;
            let Some(status) = evaluation.statuses.get(name) else {
                continue;
            };
            let after = with_status(overlay, status, context.now());
            match unless_conflict(patch_status(&api, overlay, &after, Lock::Optimistic).await)? {
                Some(Written::Stored(_) | Written::Unchanged) => {}
                // SCH-376: the overlay has changed meanwhile; its watch event starts a new evaluation.
                Some(Written::Gone) | None => return Ok(Outcome::Requeue),
            }
        }
        self.provider.publish(&evaluation);
        refresh(context).await;
        // SCH-377, LIF-207
        context.cluster.reconsider_consolidation();
        ReconcileError::of_all(&errors)?;
        Ok(Outcome::RequeueAfter(EVALUATE_AGAIN_AFTER))
    }
}

#[cfg(test)]
mod tests {
    use kerf_api::Conditioned;

    use super::*;

    // SCH-361, API-132
    #[test]
    fn the_verdict_is_a_condition() {
        let overlay = NodeOverlay::default();
        let verdict = |status| {
            let after = with_status(&overlay, &status, Timestamp::UNIX_EPOCH);
            let condition = after.condition(VALIDATION_SUCCEEDED).expect("it was set").clone();
            assert_eq!(after.condition_is_true("Ready"), condition.is_true());
            (
                condition.status.as_str(),
                condition.reason().to_owned(),
                condition.message().to_owned(),
            )
        };
        let of = |status, reason: &str, message: &str| (status, reason.to_owned(), message.to_owned());
        assert_eq!(verdict(OverlayStatus::Valid), of("True", "ValidationSucceeded", ""));
        assert_eq!(
            verdict(OverlayStatus::Conflict),
            of("False", "Conflict", "conflict with another overlay")
        );
        assert_eq!(
            verdict(OverlayStatus::Invalid("bad".into())),
            of("False", "RuntimeValidation", "bad")
        );
    }

    // API-235
    #[test]
    fn a_verdict_that_stays_the_same_changes_nothing() {
        let refused = with_status(&NodeOverlay::default(), &OverlayStatus::Conflict, Timestamp::UNIX_EPOCH);
        let later = Timestamp::UNIX_EPOCH + EVALUATE_AGAIN_AFTER;
        assert_eq!(with_status(&refused, &OverlayStatus::Conflict, later), refused);
    }
}
