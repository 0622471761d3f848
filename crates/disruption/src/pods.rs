//! Which pods move with a node, and which of them stand in the way (sections 3 to 5 of the disruption contract).

use crate::blocker::Blocker;
use crate::protection::{Protection, protection};
use jiff::Timestamp;
use kerf_model::pod::{Owner, Pod};
use kerf_model::snapshot::{Pdb, Snapshot};
use kerf_model::taint::{Effect, Taint};
use std::sync::{Arc, LazyLock};

/// The taint a node gets before it is drained.
static DISRUPTED: LazyLock<Taint> = LazyLock::new(|| Taint {
    key: Arc::from("karpenter.sh/disrupted"),
    value: Arc::from(""),
    effect: Effect::NoSchedule,
});

/// Whether the pod needs a place elsewhere when its node goes (DIS-042).
pub fn reschedulable(pod: &Pod) -> bool {
    let comes_back = pod.is_active() || (!pod.phase.is_terminal() && pod.owner == Owner::StatefulSet);
    comes_back && !matches!(pod.owner, Owner::DaemonSet | Owner::Node)
}

/// Whether a drain evicts the pod (DIS-062).
pub fn evictable(pod: &Pod, now: Timestamp) -> bool {
    pod.is_active() && pod.owner != Owner::Node && !pod.do_not_disrupt_active(now) && !tolerates_disruption(pod)
}

/// Whether the pod tolerates the taint of nodes that are disrupted, and so stays on them until they end.
pub fn tolerates_disruption(pod: &Pod) -> bool {
    pod.shape
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&DISRUPTED))
}

fn budgets<'a>(pod: &'a Pod, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a Pdb> {
    snapshot
        .pdbs
        .iter()
        .filter(|pdb| pdb.namespace == pod.namespace && pdb.selector.matches(&pod.labels))
        .map(|pdb| &**pdb)
}

fn unhealthy_is_allowed(pod: &Pod, pdb: &Pdb) -> bool {
    pdb.always_allow_unhealthy && pod.ready == Some(false)
}

/// Whether capacity should be found for the pod now (DIS-070): it moves, and nothing blocks it for good (DIS-069).
pub fn reschedulable_now(pod: &Pod, snapshot: &Snapshot, now: Timestamp) -> bool {
    if !reschedulable(pod) || (pod.is_active() && pod.do_not_disrupt_active(now)) {
        return false;
    }
    if !evictable(pod, now) {
        return true;
    }
    let budgets: Vec<&Pdb> = budgets(pod, snapshot).collect();
    match budgets.as_slice() {
        [] => true,
        [only] => !only.blocks_always || unhealthy_is_allowed(pod, only),
        _ => false,
    }
}

/// When the first of the pods that are protected for a time is so no longer.
pub(crate) fn protected_until(pods: &[Arc<Pod>], now: Timestamp) -> Option<Timestamp> {
    let ends = pods.iter().filter_map(|pod| match protection(pod, now) {
        Protection::Until(end) => Some(end),
        Protection::None | Protection::Invalid(_) | Protection::Open | Protection::Elapsed => None,
    });
    ends.min()
}

/// What about the pods of a node forbids disrupting it: the first of [`blockers`].
pub(crate) fn blocker(pods: &[Arc<Pod>], snapshot: &Snapshot, now: Timestamp) -> Option<Blocker> {
    blockers(pods, snapshot, now).next().map(|(_, blocker)| blocker)
}

/// Everything about the pods of a node that forbids disrupting it, with the pod: protected ones before those that budgets cover (DIS-034
/// to DIS-037).
pub(crate) fn blockers<'a>(
    pods: &'a [Arc<Pod>],
    snapshot: &'a Snapshot,
    now: Timestamp,
) -> impl Iterator<Item = (&'a Arc<Pod>, Blocker)> {
    let protected = pods
        .iter()
        .filter(move |pod| pod.is_active() && pod.do_not_disrupt_active(now));
    let covered = pods.iter().filter(move |pod| evictable(pod, now));
    protected
        .map(|pod| (pod, Blocker::PodAnnotation(pod.key())))
        .chain(covered.filter_map(|pod| Some((pod, refused(pod, snapshot)?))))
}

/// What the budgets that cover a pod have against its eviction.
fn refused(pod: &Pod, snapshot: &Snapshot) -> Option<Blocker> {
    let budgets: Vec<&Pdb> = budgets(pod, snapshot).collect();
    let name = |pdb: &&Pdb| format!("{}/{}", pdb.namespace, pdb.name);
    match budgets.as_slice() {
        [] => None,
        [only] if unhealthy_is_allowed(pod, only) || only.disruptions_allowed > 0 => None,
        [only] => Some(Blocker::Pdb(name(only))),
        several => Some(Blocker::MultiplePdbs(
            several.iter().map(name).collect::<Vec<_>>().join(" "),
        )),
    }
}
