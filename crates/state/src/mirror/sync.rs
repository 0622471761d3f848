//! Whether a mirror is complete enough for decisions.

use super::Mirror;
use crate::object::Kind;
use std::sync::Arc;

/// What a mirror lacks before decisions may be made from it (SCH-074, SCH-075, LIF-183 to LIF-185).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SyncReport {
    /// Kinds that have not been listed completely yet.
    pub unlisted: Vec<Kind>,
    /// Claims that are neither launched nor have promised pods, sorted: the pods they were created for are unknown.
    pub unlaunched: Vec<Arc<str>>,
}

impl SyncReport {
    /// Whether decisions may be made.
    pub fn is_synced(&self) -> bool {
        self.unlisted.is_empty() && self.unlaunched.is_empty()
    }
}

impl Mirror {
    /// What is missing before decisions may be made.
    pub fn sync_report(&self) -> SyncReport {
        let kinds = Kind::ALL
            .iter()
            .filter(|kind| kind.is_required() && !self.listed.contains(kind));
        SyncReport {
            unlisted: kinds.copied().collect(),
            unlaunched: self.unlaunched().map(|one| one.claim).collect(),
        }
    }
}
