//! How long consolidation may search.

use std::time::Duration;

use kerf_decide::Method;

/// How long consolidation may search. Drift, and validating a command, have no limit (DIS-314).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchLimits {
    /// The limit of multi-node consolidation as a whole (DIS-163).
    pub multi: Duration,
    /// The limit of single-node consolidation. It is checked between batches of nodes only (DIS-176).
    pub single: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            multi: Duration::from_secs(60),
            single: Duration::from_secs(180),
        }
    }
}

impl SearchLimits {
    /// The limit of a method; `None` for one without.
    pub(crate) const fn of(&self, method: Method) -> Option<Duration> {
        match method {
            Method::Emptiness | Method::StaticDrift | Method::Drift => None,
            Method::MultiNodeConsolidation => Some(self.multi),
            Method::SingleNodeConsolidation => Some(self.single),
        }
    }
}
