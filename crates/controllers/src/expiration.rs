//! Claims that have reached their age (the controller `nodeclaim.expiration`; LIF-125 to LIF-127).
//!
//! Budgets, disruption budgets of pods and do-not-disrupt do not ask here; they count in the drain that follows.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_api::NodeClaim;
use kerf_runtime::{Outcome, RateLimit, ReconcileError};

use crate::changes::Change;
use crate::claim_facts::{self, disrupt};
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.expiration";
/// The pause after a deletion: with the one worker there is, a brake for claims that expire together (LIF-125, LIF-224).
const PAUSE: Duration = Duration::from_secs(1);
/// How soon a claim is looked at again whose machine has another claim or a second Node.
const DOUBLED_AGAIN: Duration = Duration::from_secs(60);
/// The longest sleep towards an expiry: the wall clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// When a claim expires; `None` for never (LIF-125).
fn expires(claim: &NodeClaim) -> Option<Timestamp> {
    let created = claim.metadata.creation_timestamp.as_ref()?;
    created.0.checked_add(claim.spec.expire_after()?.to_signed()).ok()
}

/// Deletes claims that have reached their age.
pub(crate) struct Expiration {
    context: Context,
    work: WorkLoop<String>,
}

impl Expiration {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            work: WorkLoop::new(context, NAME, RateLimit::DEFAULT).for_kind::<NodeClaim>(),
        })
    }
}

impl Reconciler for Expiration {
    type Key = String;

    fn work(&self) -> &WorkLoop<String> {
        &self.work
    }

    fn keys_of(&self, change: &Change) -> Vec<String> {
        match change {
            Change::Claim(claim) if !claim.is_gone() => vec![claim.name().to_owned()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, name: &String) -> Result<Outcome, ReconcileError> {
        let claim = self
            .context
            .cluster
            .claim(name)
            .filter(|claim| !claim_facts::is_deleting(claim));
        let Some((claim, at)) = claim.and_then(|claim| expires(&claim).map(|at| (claim, at))) else {
            return Ok(Outcome::Done);
        };
        let left = self.context.clock.until(at);
        if !left.is_zero() {
            return Ok(Outcome::RequeueAfter(left.min(LOOK_AGAIN)));
        }
        // Deviation at DIS-022.
        let id = claim_facts::provider_id(&claim).unwrap_or_default();
        if self.context.cluster.is_doubled(id) {
            return Ok(Outcome::RequeueAfter(DOUBLED_AGAIN));
        }
        if let Some(hold) = self.context.jump_guard.hold() {
            return Ok(Outcome::RequeueAfter(hold));
        }
        if disrupt(&self.context, &claim, "expired").await? {
            tracing::debug!(NodeClaim = name, "deleting expired nodeclaim");
            tokio::time::sleep(PAUSE).await;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kerf_api::NodeClaimSpec;
    use kerf_units::duration::{GoDuration, NillableDuration};

    // LIF-125
    #[test]
    fn age_counts_from_creation_and_never_is_never() {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().expect("a timestamp");
        let claim = |expire_after| {
            let mut claim = NodeClaim::new(
                "web-1",
                NodeClaimSpec {
                    expire_after,
                    ..NodeClaimSpec::default()
                },
            );
            claim.metadata.creation_timestamp = Some(Time(created));
            claim
        };
        let hour = NillableDuration::from(GoDuration::from_secs(3600));
        let after = |hours| created + jiff::SignedDuration::from_hours(hours);
        assert_eq!(expires(&claim(Some(hour))), Some(after(1)));
        assert_eq!(expires(&claim(None)), Some(after(720)));
        assert_eq!(expires(&claim(Some(NillableDuration::Never))), None);
    }
}
