//! Lists that may not show what exists: they came back empty, or older than the list before.
//!
//! A cache between Kerf and the API server may be empty or old, so one such list proves nothing. Fresh lists that bypass all caches do,
//! even if they show a restored backup. The suspicion ends when fresh lists have agreed with the mirror for a while; no restart is needed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::object::{Kind, ResetReport};

/// How long fresh lists have to agree with the mirror before what is missing counts as gone.
const CONFIRMATION: Duration = Duration::from_secs(45);

/// Why instances must not be deleted because an object is missing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a list of {kind:?} objects came back empty or older than before; instances are not deleted for want of an object until the {missing} \
     missing objects are back or fresh lists have confirmed that they are gone"
)]
pub struct SuspiciousList {
    /// The kind that was listed.
    pub kind: Kind,
    /// How many objects are missing.
    pub missing: usize,
}

/// Suspicions by kind: which objects vanished or went back in time.
#[derive(Debug, Default)]
pub(crate) struct SuspiciousLists {
    suspicions: BTreeMap<Kind, Suspicion>,
}

#[derive(Debug, Default)]
struct Suspicion {
    missing: BTreeSet<String>,
    /// Objects were older than they had been.
    rewound: bool,
    /// Since when fresh lists agree with the mirror, as uptime.
    confirmed_since: Option<Duration>,
}

impl SuspiciousLists {
    /// Records the suspicion if a list of Nodes or NodeClaims is suspicious. Other kinds are ignored.
    pub(crate) fn judge(&mut self, report: &ResetReport) {
        if !report.kind.stands_for_machines() || !report.is_suspicious() {
            return;
        }
        let suspicion = self.suspicions.entry(report.kind).or_default();
        suspicion.missing.extend(report.vanished.iter().cloned());
        suspicion.rewound |= !report.rewound.is_empty();
        suspicion.confirmed_since = None;
    }

    /// Whether a kind's last lists were suspicious.
    pub(crate) fn suspects(&self, kind: Kind) -> bool {
        self.suspicions.contains_key(&kind)
    }

    /// A fresh list of the kind agrees with the mirror. Returns the suspicion that this ends.
    pub(crate) fn confirm(&mut self, kind: Kind, uptime: Duration) -> Option<SuspiciousList> {
        let suspicion = self.suspicions.get_mut(&kind)?;
        let since = *suspicion.confirmed_since.get_or_insert(uptime);
        if uptime.saturating_sub(since) < CONFIRMATION {
            return None;
        }
        let missing = self.suspicions.remove(&kind)?.missing.len();
        Some(SuspiciousList { kind, missing })
    }

    /// A fresh list of the kind does not agree with the mirror.
    pub(crate) fn contradict(&mut self, kind: Kind) {
        if let Some(suspicion) = self.suspicions.get_mut(&kind) {
            suspicion.confirmed_since = None;
        }
    }

    /// Records that an object exists.
    pub(crate) fn present(&mut self, kind: Kind, name: &str) {
        if let Some(suspicion) = self.suspicions.get_mut(&kind) {
            suspicion.missing.remove(name);
            if suspicion.missing.is_empty() && !suspicion.rewound {
                self.suspicions.remove(&kind);
            }
        }
    }

    /// Returns the first suspicion as an error.
    pub(crate) fn verdict(&self) -> Result<(), SuspiciousList> {
        match self.suspicions.iter().next() {
            None => Ok(()),
            Some((kind, suspicion)) => Err(SuspiciousList {
                kind: *kind,
                missing: suspicion.missing.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(kind: Kind, listed: usize, vanished: &[&str], rewound: &[&str]) -> ResetReport {
        ResetReport {
            kind,
            listed,
            before: listed + vanished.len(),
            vanished: vanished.iter().map(ToString::to_string).collect(),
            deleted: 0,
            rewound: rewound.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn the_end_of_the_last_objects_that_were_being_deleted_is_no_reason() {
        let mut lists = SuspiciousLists::default();
        let mut last = report(Kind::Node, 0, &["a", "b"], &[]);
        last.deleted = 2;
        lists.judge(&last);
        assert_eq!(lists.verdict(), Ok(()));
        last.deleted = 1;
        lists.judge(&last);
        assert!(lists.verdict().is_err(), "nobody deleted the other");
    }

    #[test]
    fn a_list_that_lost_everything_is_distrusted_until_everything_is_back() {
        let mut lists = SuspiciousLists::default();
        lists.judge(&report(Kind::NodeClaim, 0, &["a", "b"], &[]));
        lists.present(Kind::NodeClaim, "a");
        assert_eq!(lists.verdict().map_err(|distrust| distrust.missing), Err(1));
        lists.present(Kind::NodeClaim, "b");
        assert_eq!(lists.verdict(), Ok(()));
    }

    #[test]
    fn what_fresh_lists_say_for_a_while_is_believed() {
        let mut lists = SuspiciousLists::default();
        lists.judge(&report(Kind::Node, 3, &["d"], &["a"]));
        lists.present(Kind::Node, "d");
        assert!(lists.verdict().is_err(), "it still shows the past");
        let mut uptime = Duration::ZERO;
        assert_eq!(lists.confirm(Kind::Node, uptime), None);
        uptime += CONFIRMATION;
        lists.contradict(Kind::Node);
        assert_eq!(lists.confirm(Kind::Node, uptime), None);
        uptime += CONFIRMATION / 2;
        lists.judge(&report(Kind::Node, 0, &["b", "c"], &[]));
        uptime += CONFIRMATION / 2;
        assert_eq!(lists.confirm(Kind::Node, uptime), None, "lost something meanwhile");
        uptime += CONFIRMATION;
        assert_eq!(lists.confirm(Kind::NodeClaim, uptime), None, "another kind");
        let believed = lists.confirm(Kind::Node, uptime);
        assert_eq!(believed.map(|distrust| distrust.missing), Some(2));
        assert_eq!(lists.verdict(), Ok(()));
    }

    #[test]
    fn missed_deletions_and_pods_are_no_reason() {
        let mut lists = SuspiciousLists::default();
        lists.judge(&report(Kind::Node, 3, &["d"], &[]));
        lists.judge(&report(Kind::Pod, 0, &["d"], &[]));
        assert_eq!(lists.verdict(), Ok(()));
    }
}
