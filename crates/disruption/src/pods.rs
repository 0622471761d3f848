//! Which pods of a node block its disruption (DIS-034 to DIS-070).

use crate::blocker::Blocker;
use crate::leaving_pods::{evictable, reschedulable};
use crate::protection::{Protection, protection};
use jiff::Timestamp;
use kerf_model::pod::Pod;
use kerf_model::snapshot::{Pdb, Snapshot};
use std::sync::Arc;

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

/// Whether a simulation plans for the pod: it must be rescheduled, and nothing blocks its eviction permanently (DIS-069, DIS-070).
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

/// The earliest end of the pods' protections that end by time.
pub(crate) fn protected_until(pods: &[Arc<Pod>], now: Timestamp) -> Option<Timestamp> {
    let ends = pods.iter().filter_map(|pod| match protection(pod, now) {
        Protection::Until(end) => Some(end),
        Protection::None | Protection::Invalid(_) | Protection::Open | Protection::Elapsed => None,
    });
    ends.min()
}

/// The first of the [`blockers`] of a node's pods.
pub(crate) fn blocker(pods: &[Arc<Pod>], snapshot: &Snapshot, now: Timestamp) -> Option<Blocker> {
    blockers(pods, snapshot, now).next().map(|(_, blocker)| blocker)
}

/// Every pod that blocks the disruption of its node, with the reason: annotated pods before those that budgets cover (DIS-034 to DIS-037).
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

/// The blocker if the budgets that cover a pod allow no eviction.
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
