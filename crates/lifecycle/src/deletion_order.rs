//! Which nodes of a pool go first when it has more than it asks for (LIF-176 to LIF-179, LIF-245).

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_disruption::{Cost, lifetime_remaining};
use kerf_model::node::Node;
use kerf_model::pod::Owner;
use kerf_model::snapshot::Snapshot;

/// What the deletion of a node disrupts.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Loss {
    /// Nothing but pods of DaemonSets.
    Nothing,
    /// Pods without do-not-disrupt; the cost of moving them, which shrinks with the age of the node.
    Pods(f64),
    /// Pods, some of them with do-not-disrupt; the same cost.
    Protected(f64),
}

impl Loss {
    fn of(node: &Node, now: Timestamp) -> Self {
        let protected = node.pods.iter().any(|pod| pod.do_not_disrupt_active(now));
        let only_daemons = node.pods.iter().all(|pod| pod.owner == Owner::DaemonSet);
        let cost: Cost = node.pods.iter().map(|pod| Cost::of_eviction(pod)).sum();
        let cost = cost.as_pods() * lifetime_remaining(node, now);
        match (protected, only_daemons) {
            (false, true) => Self::Nothing,
            (false, false) => Self::Pods(cost),
            (true, _) => Self::Protected(cost),
        }
    }

    fn rank(self) -> (u8, f64) {
        match self {
            Self::Nothing => (0, 0.0),
            Self::Pods(cost) => (1, cost),
            Self::Protected(cost) => (2, cost),
        }
    }

    fn compare(self, other: Self) -> Ordering {
        let ((class, cost), (other_class, other_cost)) = (self.rank(), other.rank());
        class.cmp(&other_class).then(cost.total_cmp(&other_cost))
    }
}

/// The first `count` claims of a pool in the order of deletion. `active` are the names of its claims that are not going.
///
/// Claims for which `unlaunched` holds come first, by name. Then come nodes by what their deletion disrupts; where that is equal, drifted
/// nodes before others, then by name.
pub fn deletion_order(
    snapshot: &Snapshot,
    pool: &str,
    active: &BTreeSet<Arc<str>>,
    unlaunched: impl Fn(&str) -> bool,
    count: usize,
    now: Timestamp,
) -> Vec<Arc<str>> {
    let waiting = active.iter().filter(|claim| unlaunched(claim)).cloned();
    let mut chosen: Vec<Arc<str>> = waiting.take(count).collect();
    let label = snapshot.interner.get(pool);
    let stays = |node: &&Arc<Node>| {
        let active = node.claim_name.as_ref().is_some_and(|claim| active.contains(claim));
        label.is_some() && node.pool == label && active && !node.marked_for_deletion && node.provider_id.is_some()
    };
    let mut nodes: Vec<(Loss, &Arc<Node>)> = snapshot
        .nodes
        .iter()
        .filter(stays)
        .map(|node| (Loss::of(node, now), node))
        .collect();
    nodes.sort_by(|(loss, node), (other_loss, other)| {
        let keeps = |node: &Node| node.lifecycle.drifted.is_none();
        loss.compare(*other_loss)
            .then_with(|| keeps(node).cmp(&keeps(other)))
            .then_with(|| node.name.cmp(&other.name))
    });
    let names = nodes.into_iter().filter_map(|(_, node)| node.claim_name.clone());
    let left = count.saturating_sub(chosen.len());
    chosen.extend(names.take(left));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, at, running_pod};
    use kerf_model::intern::Interner;
    use kerf_model::pod::{DoNotDisrupt, Pod};

    fn now() -> Timestamp {
        at("2026-01-01T12:00:00Z")
    }

    /// The pool `web`.
    struct Pool {
        snapshot: Snapshot,
        active: BTreeSet<Arc<str>>,
    }

    impl Pool {
        fn new() -> Self {
            Self {
                snapshot: Snapshot::new(Arc::new(Interner::default())),
                active: BTreeSet::new(),
            }
        }

        /// Adds a claim without an instance.
        fn claim(&mut self, name: &str) {
            self.active.insert(name.into());
        }

        /// Adds a node, with its claim.
        fn node(&mut self, name: &str, pods: Vec<Pod>) -> &mut Node {
            self.claim(name);
            let node = fixture::node(&self.snapshot.interner, name, "web", pods);
            self.snapshot.nodes.push(Arc::new(node));
            self.snapshot.nodes.last_mut().map(Arc::make_mut).expect("the node")
        }

        fn first(&self, count: usize) -> Vec<String> {
            let early = |claim: &str| claim.starts_with("early");
            let chosen = deletion_order(&self.snapshot, "web", &self.active, early, count, now());
            chosen.iter().map(ToString::to_string).collect()
        }
    }

    fn plain() -> Pod {
        running_pod("plain")
    }

    fn daemon() -> Pod {
        Pod {
            owner: Owner::DaemonSet,
            ..plain()
        }
    }

    fn protected(pod: Pod) -> Pod {
        Pod {
            do_not_disrupt: DoNotDisrupt::Always,
            ..pod
        }
    }

    // LIF-177, LIF-178, LIF-179, SCH-403
    #[test]
    fn the_least_loss_goes_first() {
        let mut pool = Pool::new();
        for number in [1, 2] {
            pool.node(&format!("one-{number}"), vec![plain()]);
            pool.node(&format!("two-{number}"), vec![plain(), plain()]);
            pool.node(&format!("kept-{number}"), vec![protected(plain())]);
            pool.node(&format!("daemons-{number}"), vec![daemon()]);
        }
        let all = [
            "daemons-1",
            "daemons-2",
            "one-1",
            "one-2",
            "two-1",
            "two-2",
            "kept-1",
            "kept-2",
        ];
        for count in [0, 2, 4, 6, 8, 20] {
            assert_eq!(pool.first(count), all[..count.min(8)], "{count}");
        }
    }

    // LIF-176, LIF-245, SCH-489
    #[test]
    fn claims_without_an_instance_go_before_all_and_those_without_a_node_are_empty() {
        let mut pool = Pool::new();
        pool.node("busy", vec![plain()]);
        pool.node("launched", Vec::new()).node_name = None;
        pool.claim("early-1");
        pool.claim("early-2");
        assert_eq!(pool.first(1), ["early-1"]);
        assert_eq!(pool.first(3), ["early-1", "early-2", "launched"]);
        assert_eq!(pool.first(9).len(), 4);
    }

    // LIF-177, LIF-178, DIS-048
    #[test]
    fn a_daemon_may_protect_its_node_and_age_cheapens_one() {
        let mut pool = Pool::new();
        pool.node("guarded", vec![protected(daemon())]);
        // Ten hours are over: half the cost of two pods is left of twenty hours, an eleventh of that of three of eleven.
        pool.node("old", vec![plain(), plain()]).lifecycle.expires = Some(at("2026-01-01T22:00:00Z"));
        pool.node("older", vec![plain(), plain(), plain()]).lifecycle.expires = Some(at("2026-01-01T13:00:00Z"));
        pool.node("young", vec![plain(), plain()]);
        assert_eq!(pool.first(9), ["older", "old", "young", "guarded"]);
    }

    #[test]
    fn among_equals_drifted_nodes_go_first() {
        let mut pool = Pool::new();
        pool.node("a", Vec::new());
        pool.node("b", Vec::new()).lifecycle.drifted = Some(("NodePoolDrifted".into(), now()));
        assert_eq!(pool.first(2), ["b", "a"]);
    }

    // LIF-177
    #[test]
    fn what_goes_already_is_not_chosen_again() {
        let mut pool = Pool::new();
        pool.node("a", Vec::new()).marked_for_deletion = true;
        pool.node("b", Vec::new());
        pool.node("c", Vec::new());
        // Its replacement is being made.
        pool.active.remove("b");
        assert_eq!(pool.first(3), ["c"]);
    }
}
