//! The scores of kube-scheduler's default plugins, from 0 to 100, and their weights.

use kerf_units::policy::NodeScoring;

/// The highest score of a plugin.
const SCORE_MAX: i64 = 100;

/// The weight of `NodeResourcesFit` in the default profile.
pub(super) const ALLOCATION_WEIGHT: i64 = 1;
/// The weight of `NodeResourcesBalancedAllocation` in the default profile.
pub(super) const BALANCE_WEIGHT: i64 = 1;
/// The weight of `NodeAffinity` in the default profile.
pub(super) const NODE_AFFINITY_WEIGHT: i64 = 2;
/// The weight of `PodTopologySpread` in the default profile.
pub(super) const SPREAD_WEIGHT: i64 = 2;
/// The weight of `TaintToleration` in the default profile.
pub(super) const TAINT_WEIGHT: i64 = 3;

/// The cpu, in milli-cores, that a pod without a request counts with.
pub(super) const CPU_UNREQUESTED: i64 = 100;
/// The memory, in bytes, that a pod without a request counts with.
pub(super) const MEMORY_UNREQUESTED: i64 = 200 << 20;

/// The score of `NodeResourcesFit`: the mean over resources of what is left, or of what is used, with the pod on the node. Resources of
/// which the node has none do not count.
pub fn allocation_score(scoring: NodeScoring, allocatable: [i64; 2], used: [i64; 2]) -> i64 {
    let (mut sum, mut resources) = (0, 0);
    for (allocatable, used) in allocatable.into_iter().zip(used).filter(|(amount, _)| *amount > 0) {
        let percent = |amount: i64| match amount.checked_mul(SCORE_MAX) {
            Some(product) => product / allocatable,
            None => (i128::from(amount) * i128::from(SCORE_MAX) / i128::from(allocatable)) as i64,
        };
        sum += match scoring {
            NodeScoring::LeastAllocated if used > allocatable => 0,
            NodeScoring::LeastAllocated => percent(allocatable - used),
            NodeScoring::MostAllocated => percent(used.clamp(0, allocatable)),
        };
        resources += 1;
    }
    if resources == 0 { 0 } else { sum / resources }
}

/// The score of `NodeResourcesBalancedAllocation`: 100 where cpu and memory are used in equal shares, 50 where one is full and the other
/// is empty.
pub fn balance_score(allocatable: [i64; 2], used: [i64; 2]) -> i64 {
    let share = |at: usize| (used[at] as f64 / allocatable[at] as f64).min(1.0);
    let deviation = if allocatable.iter().all(|amount| *amount > 0) {
        ((share(0) - share(1)) / 2.0).abs()
    } else {
        0.0
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

/// What one constraint of `PodTopologySpread` counts against a node whose domain has `count` pods, if the nodes that fit are in `domains`
/// domains.
pub fn spread_penalty(count: u32, max_skew: u32, domains: usize) -> f64 {
    f64::from(count) * ((domains + 2) as f64).ln() + f64::from(max_skew.saturating_sub(1))
}

/// The score of `PodTopologySpread` for a node, from its penalty and the least and the largest one of the nodes that fit.
pub fn spread_score(penalty: i64, least: i64, largest: i64) -> i64 {
    if largest == 0 {
        SCORE_MAX
    } else {
        SCORE_MAX * (largest + least - penalty) / largest
    }
}

/// A score from a weight or count and the largest one of the nodes that fit, as plugins normalise by default.
pub(super) fn share_of(value: i64, largest: i64) -> i64 {
    if largest == 0 {
        value
    } else {
        SCORE_MAX * value / largest
    }
}

/// The same where more is worse.
pub(super) fn share_below(value: i64, largest: i64) -> i64 {
    if largest == 0 {
        SCORE_MAX
    } else {
        SCORE_MAX - SCORE_MAX * value / largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: [i64; 2] = [4000, 10_000];

    // The examples of the plugins' own tests.
    #[test]
    fn scores_are_those_of_kube_scheduler() {
        let least = |used| allocation_score(NodeScoring::LeastAllocated, NODE, used);
        let most = |used| allocation_score(NodeScoring::MostAllocated, NODE, used);
        assert_eq!((least([3000, 5000]), most([3000, 5000])), (37, 62));
        assert_eq!((least([0, 0]), most([0, 0])), (100, 0));
        assert_eq!(least([5000, 5000]), 25, "more than there is scores nothing");
        assert_eq!(most([5000, 5000]), 75);
        assert_eq!(allocation_score(NodeScoring::LeastAllocated, [0, 0], [1, 1]), 0);
        assert_eq!(balance_score(NODE, [3000, 5000]), 87);
        assert_eq!(balance_score([6000, 10_000], [3000, 5000]), 100);
        assert_eq!(balance_score([4000, 0], [3000, 0]), 100);
    }

    #[test]
    fn the_domain_with_the_fewest_pods_scores_highest() {
        let penalty = |count| spread_penalty(count, 1, 2).round() as i64;
        let (empty, full) = (penalty(0), penalty(2));
        assert_eq!((empty, full), (0, 3));
        assert_eq!((spread_score(empty, 0, 3), spread_score(full, 0, 3)), (100, 0));
        assert_eq!(spread_score(0, 0, 0), 100);
        assert_eq!(
            (share_of(1, 4), share_of(0, 0), share_below(1, 4), share_below(0, 0)),
            (25, 0, 75, 100)
        );
    }
}
