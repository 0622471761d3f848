//! The domains of a topology key that a claim may still be in.

use crate::compile::topology::keys::{Domain, DomainId};
use crate::dense::id_set::IdSet;

/// The domains of one topology key that a claim with some spec may still be in.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimDomains {
    /// Whether its node will have the label.
    pub(crate) defined: bool,
    /// The domains it may be in.
    pub(crate) possible: IdSet<Domain>,
    /// The domain, if only one is possible.
    pub(crate) one: Option<DomainId>,
}

impl ClaimDomains {
    /// Returns whether its node will be in no domain.
    pub(crate) fn no_domain(&self) -> bool {
        !self.defined || (self.one.is_none() && self.possible.is_empty())
    }
}
