//! Scores of the nodes that fit.

use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::Pod;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::Effect;
use std::collections::BTreeMap;

/// How the scheduler distributes pods over nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scoring {
    /// Pods spread: the emptiest node wins, as in a default kube-scheduler.
    #[default]
    LeastAllocated,
    /// Pods pack: the fullest node wins.
    MostAllocated,
}

/// The highest score of one criterion.
const FULL: i64 = 100;

/// A node's score for a pod; higher is better. Node affinity and soft taints weigh as in kube-scheduler's default profile (2 and 3), resources
/// and the spread of the pod's kind over nodes 1 each, so that packing is not undone by spreading.
pub(super) fn score(
    scoring: Scoring,
    pod: &Pod,
    node: &Node,
    cluster: &Snapshot,
    soft_spread_counts: &SoftSpreadCounts,
) -> i64 {
    let resources = resources(scoring, pod, node);
    let preferred = preferred(pod, node, &cluster.interner);
    let soft = node
        .taints
        .iter()
        .filter(|taint| taint.effect == Effect::PreferNoSchedule);
    let soft = soft.filter(|taint| {
        !pod.shape
            .tolerations
            .iter()
            .any(|toleration| toleration.tolerates(taint))
    });
    let repelled = i64::try_from(soft.count()).unwrap_or(i64::MAX).min(1) * FULL;
    resources + 2 * preferred - 3 * repelled - soft_spread_counts.penalty(node)
}

/// Mean of cpu and memory: the share in use with the pod there, or what is left of it.
fn resources(scoring: Scoring, pod: &Pod, node: &Node) -> i64 {
    let share = |of: Sym| {
        let total = node.allocatable.get(of).max(1);
        let used = node.requested.get(of).saturating_add(pod.shape.requests.get(of));
        let percent = i128::from(used.clamp(0, total)) * i128::from(FULL) / i128::from(total);
        i64::try_from(percent).unwrap_or(FULL)
    };
    let used = i64::midpoint(share(sym::CPU), share(sym::MEMORY));
    match scoring {
        Scoring::MostAllocated => used,
        Scoring::LeastAllocated => FULL - used,
    }
}

fn holds(wanted: &Requirement, node: &Node, interner: &Interner) -> bool {
    node.label(wanted.key)
        .map_or_else(|| wanted.admits_absence(), |value| wanted.has(value, interner))
}

/// The share of preferred node affinity's weight the node has.
fn preferred(pod: &Pod, node: &Node, interner: &Interner) -> i64 {
    let terms = &pod.shape.preferred_terms;
    let total: i64 = terms.iter().map(|(weight, _)| i64::from(*weight)).sum();
    let met = terms
        .iter()
        .filter(|(_, term)| term.iter().all(|wanted| holds(wanted, node, interner)));
    let met: i64 = met.map(|(weight, _)| i64::from(*weight)).sum();
    if total > 0 { met * FULL / total } else { 0 }
}

/// The pods per domain that the soft topology spread constraints count.
pub(super) struct SoftSpreadCounts {
    /// By constraint: the key, the pods per domain, and the fullest domain.
    counts: Vec<(Sym, BTreeMap<Sym, i64>, i64)>,
}

impl SoftSpreadCounts {
    pub(super) fn new(pod: &Pod, cluster: &Snapshot) -> Self {
        let soft = pod.shape.spread.iter().filter(|constraint| !constraint.required);
        let counts = soft.map(|constraint| {
            let mut counts: BTreeMap<Sym, i64> = BTreeMap::new();
            for node in &cluster.nodes {
                let Some(domain) = node.label(constraint.key) else {
                    continue;
                };
                let same = |other: &&std::sync::Arc<Pod>| {
                    other.namespace == pod.namespace && constraint.selector.matches(&other.labels)
                };
                *counts.entry(domain).or_default() += i64::try_from(node.pods.iter().filter(same).count()).unwrap_or(0);
            }
            let fullest = counts.values().copied().max().unwrap_or(0);
            (constraint.key, counts, fullest)
        });
        Self {
            counts: counts.collect(),
        }
    }

    /// Twice a full criterion per constraint for the fullest domain, nothing for an empty one.
    fn penalty(&self, node: &Node) -> i64 {
        let of = |(key, counts, fullest): &(Sym, BTreeMap<Sym, i64>, i64)| {
            let here = node.label(*key).and_then(|domain| counts.get(&domain)).copied();
            here.map_or(2 * FULL, |here| 2 * FULL * here / (*fullest).max(1))
        };
        self.counts.iter().map(of).sum()
    }
}
