//! The domains of a topology key that a claim may still be in.

use crate::dense::bits::Bits;

/// The domains of one topology key that a claim with some spec may still be in.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimDomains {
    /// Whether its node will have the label.
    pub(crate) defined: bool,
    pub(crate) bits: Bits,
    /// The domain, if only one is possible.
    pub(crate) one: Option<u32>,
}

impl ClaimDomains {
    /// Returns whether its node will be in no domain.
    pub(crate) fn no_domain(&self) -> bool {
        !self.defined || (self.one.is_none() && self.bits.is_empty())
    }
}
