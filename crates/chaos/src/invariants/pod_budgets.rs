//! No PodDisruptionBudget is violated by what the controllers ask for: they evict, a granted eviction leaves enough healthy pods, and they
//! delete a pod past the eviction API only when its node's deadline is near.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Invariant;
use super::protection::is_due;
use crate::caller::Caller;
use crate::view::{Event, Pdb, Pod, View};

/// A budget's status follows the pods' with this delay, and the API server can only ask the status.
const STATUS_LAG: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct PodBudgets {
    /// Pods that are not healthy any more, or gone, with the time they last were, by uid.
    healthy: BTreeMap<String, (Duration, Pod)>,
}

fn is_healthy(pod: &Pod) -> bool {
    pod.is_active() && pod.ready
}

impl PodBudgets {
    fn broken(&self, seen: &View, pdb: &Pdb, evicted: &Pod) -> bool {
        let now = seen.pods.values().filter(|pod| is_healthy(pod));
        let is_fresh = |at: Duration| seen.elapsed.saturating_sub(at) < STATUS_LAG;
        let lately = self
            .healthy
            .values()
            .filter(|(at, _)| is_fresh(*at))
            .map(|(_, pod)| pod);
        let counted = now
            .chain(lately)
            .filter(|pod| pdb.covers(pod) && pod.uid != evicted.uid);
        let left = counted.map(|pod| &pod.uid).collect::<BTreeSet<_>>().len();
        i64::try_from(left).unwrap_or(i64::MAX) < pdb.desired
    }
}

impl Invariant for PodBudgets {
    fn name(&self) -> &'static str {
        "pod disruption budgets hold"
    }

    fn after(&mut self, seen: &View, caller: Caller, event: &Event) -> Option<String> {
        let Event::Pod(diff) = event else { return None };
        let before = diff.before.as_ref()?;
        if is_healthy(before) {
            // An eviction is charged to the budget at once; for all else the budget's status follows.
            if caller != Caller::KerfEvicting {
                self.healthy.insert(before.uid.clone(), (seen.elapsed, before.clone()));
            } else {
                self.healthy.remove(&before.uid);
            }
        }
        let goes = before.deletion.is_none() && diff.after.as_ref().is_none_or(|after| after.deletion.is_some());
        if !caller.is_kerf() || !goes || before.is_finished() {
            return None;
        }
        if caller == Caller::Kerf {
            let past_budget = seen.pdbs.values().any(|pdb| pdb.covers(before));
            return (past_budget && !is_due(seen, before))
                .then(|| format!("{} was deleted past its budget before its time", before.key));
        }
        if before.phase == "Pending" || !before.ready {
            return None;
        }
        let broken = seen
            .pdbs
            .values()
            .find(|pdb| pdb.covers(before) && self.broken(seen, pdb, before))?;
        Some(format!("evicting {} breaks {}", before.key, broken.key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Diff;

    fn running_pod(name: &str, ready: bool) -> Pod {
        Pod {
            key: name.into(),
            uid: name.into(),
            phase: "Running".into(),
            ready,
            ..Pod::default()
        }
    }

    fn judge(others_ready: bool, desired: i64, caller: Caller) -> Option<String> {
        let mut seen = View::default();
        let pdb = Pdb {
            key: "pdb".into(),
            desired,
            ..Pdb::default()
        };
        seen.pdbs.insert("pdb".into(), pdb);
        for other in ["a", "b"] {
            seen.pods.insert(other.into(), running_pod(other, others_ready));
        }
        let event = Event::Pod(Diff {
            before: Some(running_pod("x", true)),
            after: None,
        });
        PodBudgets::default().after(&seen, caller, &event)
    }

    #[test]
    fn a_granted_eviction_leaves_enough() {
        assert!(judge(true, 2, Caller::KerfEvicting).is_none());
        assert!(judge(true, 3, Caller::KerfEvicting).is_some());
        assert!(judge(false, 1, Caller::KerfEvicting).is_some());
        assert!(judge(false, 1, Caller::Others).is_none());
    }

    // The API server grants by the budget's status, which has not heard of the deletion.
    #[test]
    fn a_pod_that_has_just_gone_is_in_the_status_still() {
        let mut seen = View::default();
        let pdb = Pdb {
            key: "pdb".into(),
            desired: 1,
            ..Pdb::default()
        };
        seen.pdbs.insert("pdb".into(), pdb);
        let gone = |name: &str| {
            Event::Pod(Diff {
                before: Some(running_pod(name, true)),
                after: None,
            })
        };
        let mut budgets = PodBudgets::default();
        budgets.after(&seen, Caller::Others, &gone("a"));
        assert!(budgets.after(&seen, Caller::KerfEvicting, &gone("b")).is_none());
        seen.elapsed = STATUS_LAG;
        assert!(budgets.after(&seen, Caller::KerfEvicting, &gone("c")).is_some());
    }

    #[test]
    fn a_deletion_is_no_way_around() {
        assert!(judge(true, 0, Caller::Kerf).is_some());
    }
}
