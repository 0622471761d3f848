//! Which claims of a pool go first: pure (LIF-176 to LIF-179, LIF-245).

use std::cmp::Ordering;
use std::sync::Arc;

use jiff::Timestamp;
use kerf_disruption::{Cost, lifetime_remaining};
use kerf_model::node::Node;
use kerf_model::pod::Owner;
use kerf_model::snapshot::Snapshot;
use kerf_state::PoolClaims;

/// How much is lost with a node.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Loss {
    /// Nothing but what a DaemonSet put there.
    Nothing,
    /// Pods, none of which asked to be left alone; the cost of moving them, less the older the node is.
    Pods(f64),
    /// Pods, some of which did ask.
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

/// Up to `excess` claims of a pool that cost the least to lose: first those without an instance, then nodes by what runs on them. Where
/// that is equal, drifted nodes go first, then the order is that of names.
pub(super) fn victims(
    snapshot: &Snapshot,
    pool: &str,
    claims: &PoolClaims,
    unlaunched: impl Fn(&str) -> bool,
    excess: usize,
    now: Timestamp,
) -> Vec<Arc<str>> {
    let waiting = claims.active.iter().filter(|claim| unlaunched(claim)).cloned();
    let mut chosen: Vec<Arc<str>> = waiting.take(excess).collect();
    let label = snapshot.interner.get(pool);
    let stays = |node: &&Arc<Node>| {
        let active = node
            .claim_name
            .as_ref()
            .is_some_and(|claim| claims.active.contains(claim));
        label.is_some() && node.pool == label && active && !node.marked_for_deletion && node.provider_id.is_some()
    };
    let mut nodes: Vec<(Loss, &Arc<Node>)> = snapshot
        .nodes
        .iter()
        .filter(stays)
        .map(|node| (Loss::of(node, now), node))
        .collect();
    nodes.sort_by(|(loss, node), (other_loss, other)| {
        let drifted = |node: &Node| node.lifecycle.drifted.is_none();
        loss.compare(*other_loss)
            .then_with(|| drifted(node).cmp(&drifted(other)))
            .then_with(|| node.name.cmp(&other.name))
    });
    let names = nodes.into_iter().filter_map(|(_, node)| node.claim_name.clone());
    let left = excess.saturating_sub(chosen.len());
    chosen.extend(names.take(left));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;
    use kerf_state::{Conventions, Mirror, MirrorOptions};
    use serde_json::{Value, json};

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().expect("a timestamp")
    }

    /// A mirror with one pool in it.
    struct Pool(Mirror);

    impl Pool {
        fn new() -> Self {
            let options = MirrorOptions {
                conventions: Conventions::default(),
                offline: false,
            };
            Self(Mirror::new(Arc::new(Interner::default()), &options))
        }

        fn claim(&mut self, name: &str, launched: bool, expire_after: &str) {
            let mut claim = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T02:00:00Z", "labels": {"karpenter.sh/nodepool": "web"}},
                "spec": {
                    "requirements": [], "expireAfter": expire_after,
                    "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                },
            });
            if launched {
                claim["status"] = json!({"providerID": format!("p://{name}")});
            }
            self.0
                .apply::<kerf_api::NodeClaim>(serde_json::from_value(claim).expect("a claim"));
        }

        fn node(&mut self, name: &str, expire_after: &str, pods: &[Value]) {
            self.claim(name, true, expire_after);
            let labels = json!({
                "karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "small",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
            });
            let node = json!({
                "metadata": {"name": name, "uid": name, "creationTimestamp": "2026-01-01T02:00:00Z", "labels": labels},
                "spec": {"providerID": format!("p://{name}")},
            });
            self.0
                .apply::<kerf_state::lean::LeanNode>(serde_json::from_value(node).expect("a node"));
            for (number, pod) in pods.iter().enumerate() {
                let mut meta = json!({"name": format!("{name}-{number}"), "namespace": "default", "uid": format!("{name}-{number}")});
                for (key, value) in pod.as_object().into_iter().flatten() {
                    meta[key] = value.clone();
                }
                let pod = json!({"metadata": meta, "spec": {"nodeName": name}, "status": {"phase": "Running", "startTime": "2026-01-01T11:00:00Z"}});
                self.0
                    .apply::<kerf_state::lean::LeanPod>(serde_json::from_value(pod).expect("a pod"));
            }
        }

        fn victims(&mut self, excess: usize) -> Vec<String> {
            let snapshot = self.0.snapshot(now());
            let claims = self.0.pool_claims("web");
            let chosen = victims(
                &snapshot,
                "web",
                &claims,
                |claim| claim.starts_with("early"),
                excess,
                now(),
            );
            chosen.iter().map(ToString::to_string).collect()
        }
    }

    fn plain() -> Value {
        json!({})
    }

    fn daemon() -> Value {
        json!({"ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": true}]})
    }

    fn protected(mut pod: Value) -> Value {
        pod["annotations"] = json!({"karpenter.sh/do-not-disrupt": "true"});
        pod
    }

    // LIF-177, LIF-178, LIF-179, SCH-403
    #[test]
    fn the_least_loss_goes_first() {
        let mut pool = Pool::new();
        for number in [1, 2] {
            pool.node(&format!("one-{number}"), "Never", &[plain()]);
            pool.node(&format!("two-{number}"), "Never", &[plain(), plain()]);
            pool.node(&format!("kept-{number}"), "Never", &[protected(plain())]);
            pool.node(&format!("daemons-{number}"), "Never", &[daemon()]);
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
        for excess in [0, 2, 4, 6, 8, 20] {
            assert_eq!(pool.victims(excess), all[..excess.min(8)], "{excess}");
        }
    }

    // LIF-176, LIF-245, SCH-489
    #[test]
    fn claims_without_an_instance_go_before_all_and_those_without_a_node_are_empty() {
        let mut pool = Pool::new();
        pool.node("busy", "Never", &[plain()]);
        pool.claim("launched", true, "Never");
        pool.claim("early-1", false, "Never");
        pool.claim("early-2", false, "Never");
        assert_eq!(pool.victims(1), ["early-1"]);
        assert_eq!(pool.victims(3), ["early-1", "early-2", "launched"]);
        assert_eq!(pool.victims(9).len(), 4);
    }

    // LIF-177, LIF-178, DIS-048
    #[test]
    fn a_daemon_may_protect_its_node_and_age_cheapens_one() {
        let mut pool = Pool::new();
        pool.node("guarded", "Never", &[protected(daemon())]);
        // Ten hours are over: half the cost of two pods is left of twenty hours, an eleventh of that of three of eleven.
        pool.node("old", "20h", &[plain(), plain()]);
        pool.node("older", "11h", &[plain(), plain(), plain()]);
        pool.node("young", "Never", &[plain(), plain()]);
        assert_eq!(pool.victims(9), ["older", "old", "young", "guarded"]);
    }

    // LIF-177
    #[test]
    fn what_goes_already_is_not_chosen_again() {
        let mut pool = Pool::new();
        pool.node("a", "Never", &[]);
        pool.node("b", "Never", &[]);
        pool.node("c", "Never", &[]);
        pool.0.mark_for_deletion("p://a");
        pool.0.set_pending_disruption("b", true);
        assert_eq!(pool.victims(3), ["c"]);
    }
}
