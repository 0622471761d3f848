//! Deletes claims that are too old (the controller `nodeclaim.expiration`; LIF-125 to LIF-127).
//!
//! Disruption budgets of pools and pods, and do-not-disrupt, do not delay the deletion; those of pods slow down the drain that follows.

use std::sync::Arc;
use std::time::Duration;

use kerf_api::NodeClaim;
use kerf_lifecycle::expiration::{Expiry, expires, expiry};
use kerf_runtime::{Outcome, RateLimit, ReconcileError};
use kerf_units::duration::GoDuration;

use crate::changes::Change;
use crate::claim_facts;
use crate::claim_writes::disrupt;
use crate::context::Context;
use crate::reconciler::{Reconciler, WorkLoop};

const NAME: &str = "nodeclaim.expiration";
/// The pause after a deletion. There is one worker, so claims that expire together go one per second (LIF-125, LIF-224).
const PAUSE_AFTER_DELETION: Duration = Duration::from_secs(1);

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
        let Some(claim) = claim else {
            return Ok(Outcome::Done);
        };
        let created = claim.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let expire_after = claim.spec.expire_after().map(GoDuration::to_signed);
        let doubled = claim_facts::provider_id(&claim).is_some_and(|id| self.context.cluster.is_doubled(id));
        let hold = self.context.jump_guard.hold();
        match expiry(expires(created, expire_after), doubled, hold, self.context.now()) {
            Expiry::Never => return Ok(Outcome::Done),
            Expiry::Wait(delay) => return Ok(Outcome::RequeueAfter(delay)),
            Expiry::Expired => {}
        }
        if disrupt(&self.context, &claim, "expired").await? {
            tracing::debug!(NodeClaim = name, "deleting expired nodeclaim");
            tokio::time::sleep(PAUSE_AFTER_DELETION).await;
        }
        Ok(Outcome::Done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_api::NodeClaimSpec;
    use kerf_units::duration::NillableDuration;

    // LIF-125
    #[test]
    fn a_claim_without_an_age_limit_has_the_default_one() {
        let limit = |expire_after| {
            let spec = NodeClaimSpec {
                expire_after,
                ..NodeClaimSpec::default()
            };
            spec.expire_after().map(GoDuration::to_signed)
        };
        let hours = |hours| Some(jiff::SignedDuration::from_hours(hours));
        assert_eq!(limit(None), hours(720));
        assert_eq!(limit(Some(GoDuration::from_secs(3600).into())), hours(1));
        assert_eq!(limit(Some(NillableDuration::Never)), None);
    }
}
