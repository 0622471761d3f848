//! Claims whose replacement is being made (LIF-211).

use std::collections::BTreeSet;
use std::sync::Arc;

/// The unique ids of the claims.
#[derive(Default, Debug)]
pub(crate) struct Replacements(BTreeSet<Arc<str>>);

impl Replacements {
    /// Records whether the replacement of a claim is being created.
    pub(crate) fn set(&mut self, claim_uid: &Arc<str>, pending: bool) {
        if pending {
            self.0.insert(Arc::clone(claim_uid));
        } else {
            self.0.remove(claim_uid);
        }
    }

    /// Whether the replacement of a claim is being made.
    pub(crate) fn contains(&self, claim_uid: &str) -> bool {
        self.0.contains(claim_uid)
    }

    /// Forgets a claim that is gone.
    pub(crate) fn forget(&mut self, claim_uid: &str) {
        self.0.remove(claim_uid);
    }
}
