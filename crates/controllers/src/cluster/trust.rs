//! Whether a list may be taken for the truth about what exists.

use std::collections::{BTreeMap, BTreeSet};

use kerf_state::{Kind, ResetReport};

/// Why nothing may be deleted for being missing.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "a list of {kind:?} objects came back empty or older than before; instances are not deleted for want of an object until {missing} \
     missing objects are back or Kerf is restarted"
)]
pub struct Distrust {
    /// The kind that was listed.
    pub kind: Kind,
    /// How many objects are missing.
    pub missing: usize,
}

/// Suspicions by kind: which objects vanished or went back in time.
#[derive(Debug, Default)]
pub(super) struct Trust {
    suspicions: BTreeMap<Kind, Suspicion>,
}

#[derive(Debug, Default)]
struct Suspicion {
    missing: BTreeSet<String>,
    /// A restored etcd: nothing that comes later proves the contrary.
    rewound: bool,
}

impl Trust {
    /// Judges a list of objects that stand for machines; other kinds may come and go.
    pub(super) fn judge(&mut self, report: &ResetReport) {
        if !matches!(report.kind, Kind::Node | Kind::NodeClaim) || !report.is_suspicious() {
            return;
        }
        let suspicion = self.suspicions.entry(report.kind).or_default();
        suspicion.missing.extend(report.vanished.iter().cloned());
        suspicion.rewound |= !report.rewound.is_empty();
    }

    /// Notes that an object is there.
    pub(super) fn present(&mut self, kind: Kind, name: &str) {
        if let Some(suspicion) = self.suspicions.get_mut(&kind) {
            suspicion.missing.remove(name);
            if suspicion.missing.is_empty() && !suspicion.rewound {
                self.suspicions.remove(&kind);
            }
        }
    }

    pub(super) fn verdict(&self) -> Result<(), Distrust> {
        match self.suspicions.iter().next() {
            None => Ok(()),
            Some((kind, suspicion)) => Err(Distrust {
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
            rewound: rewound.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_list_that_lost_everything_is_distrusted_until_everything_is_back() {
        let mut trust = Trust::default();
        trust.judge(&report(Kind::NodeClaim, 0, &["a", "b"], &[]));
        trust.present(Kind::NodeClaim, "a");
        assert_eq!(trust.verdict().map_err(|distrust| distrust.missing), Err(1));
        trust.present(Kind::NodeClaim, "b");
        assert_eq!(trust.verdict(), Ok(()));
    }

    #[test]
    fn a_list_that_shows_the_past_is_distrusted_for_good() {
        let mut trust = Trust::default();
        trust.judge(&report(Kind::Node, 3, &["d"], &["a"]));
        trust.present(Kind::Node, "d");
        assert!(trust.verdict().is_err());
    }

    #[test]
    fn missed_deletions_and_pods_are_no_reason() {
        let mut trust = Trust::default();
        trust.judge(&report(Kind::Node, 3, &["d"], &[]));
        trust.judge(&report(Kind::Pod, 0, &["d"], &[]));
        assert_eq!(trust.verdict(), Ok(()));
    }
}
