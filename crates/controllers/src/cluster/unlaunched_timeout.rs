//! How long planning waits for claims that are not launched.
//!
//! A claim without an instance and without promised pods may have been made for any pod, so planning waits for it (SCH-075). Upstream
//! waits until it is launched or gone, which lets one claim nobody can launch stop a whole cluster. Here the wait ends when the provider
//! has refused the claim once, and after three quarters of a minute in any case. The claim is then a machine on its way with room for whatever it
//! was made for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kerf_api::NodeClaim;
use kerf_api::conditions::AWAITING_RECONCILIATION;
use kerf_api::conditions::node_claim::LAUNCHED;
use kerf_api::status::Conditioned;
use tokio::time::Instant;

use super::objects::Objects;

/// The longest wait for one claim.
const LONGEST: Duration = Duration::from_secs(45);

/// Since when each claim is waited for, on the clock that does not jump.
#[derive(Debug, Default)]
pub(super) struct UnlaunchedTimeouts(BTreeMap<Arc<str>, Instant>);

impl UnlaunchedTimeouts {
    /// Takes out those that are not waited for any longer, and gives them back.
    pub(super) fn reduce(&mut self, unlaunched: &mut Vec<Arc<str>>, claims: &Objects<NodeClaim>) -> Vec<Arc<str>> {
        let now = Instant::now();
        self.0.retain(|claim, _| unlaunched.binary_search(claim).is_ok());
        let given_up = |claim: &mut Arc<str>| {
            let since = *self.0.entry(Arc::clone(claim)).or_insert(now);
            let refused = claims.get(claim).is_some_and(|claim| was_refused(&claim));
            refused || now.duration_since(since) >= LONGEST
        };
        unlaunched.extract_if(.., given_up).collect()
    }
}

/// Whether the provider was asked and did not launch.
fn was_refused(claim: &NodeClaim) -> bool {
    claim
        .condition(LAUNCHED)
        .is_some_and(|launched| launched.is_unknown() && launched.reason() != AWAITING_RECONCILIATION)
}
