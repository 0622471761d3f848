//! Removes the taints and conditions of commands that are not in flight: of an earlier run of the process, and of starts that failed
//! (DIS-010 to DIS-014).

use futures::future::join_all;
use jiff::Timestamp;
use kerf_runtime::ReconcileError;
use kerf_runtime::client::ApiErrorKind;
use kerf_state::CommandNode;

use super::taints::{DisruptionTaints, bears_reason, bears_taint};
use crate::context::Context;

/// Nodes cleaned at once; the client's own limit sets the pace.
const AT_ONCE: usize = 100;

/// Removes the marks of every node that no command holds and that is not being deleted. A conflict is returned only if all errors are
/// conflicts.
pub(super) async fn clean_up(
    context: &Context,
    taints: &DisruptionTaints,
    now: Timestamp,
) -> Result<(), ReconcileError> {
    let stale = stale(context, now);
    let mut errors = Vec::new();
    for some in stale.chunks(AT_ONCE) {
        let clean = async |node: &Stale| match node.is_initialized {
            true => taints.unmark(&node.node).await,
            // DIS-012
            false => taints.untaint(&node.node).await,
        };
        let results = join_all(some.iter().map(clean)).await;
        errors.extend(results.into_iter().filter_map(Result::err));
    }
    // Another error says more than a conflict.
    errors.sort_by_key(|error| ApiErrorKind::of(error) == ApiErrorKind::Conflict);
    errors.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
}

/// A node with marks that no command needs.
struct Stale {
    node: CommandNode,
    is_initialized: bool,
}

/// The nodes with marks that no command holds and that are not marked for deletion.
fn stale(context: &Context, now: Timestamp) -> Vec<Stale> {
    let cluster = &context.cluster;
    let is_any_marked = cluster.nodes().iter().any(|node| bears_taint(node))
        || cluster.claims().iter().any(|claim| bears_reason(claim));
    if !is_any_marked {
        return Vec::new();
    }
    let snapshot = cluster.snapshot(now);
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|node| node.managed && !node.marked_for_deletion && !cluster.holds(node));
    let mut stale = Vec::new();
    for node in nodes {
        let is_initialized = node.initialized;
        let Some(node) = CommandNode::of(node) else { continue };
        let object = node.node.as_deref().and_then(|name| cluster.node(name));
        let tainted = object.is_some_and(|object| bears_taint(&object));
        let reason = || is_initialized && cluster.claim(&node.claim).is_some_and(|claim| bears_reason(&claim));
        if tainted || reason() {
            stale.push(Stale { node, is_initialized });
        }
    }
    stale
}

#[cfg(test)]
mod tests {
    use kerf_api::{NodeClaim, NodePool};
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_state::lean::LeanNode;
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::Watched;

    // DIS-011, DIS-012
    #[tokio::test]
    async fn the_condition_is_only_taken_off_initialized_nodes() {
        let context = Context::without_api();
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let pool = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"template": {"spec": {"requirements": [], "nodeClassRef": class}}}});
        let cluster = &context.cluster;
        cluster.notify(Watched::apply(cluster, from_value::<NodePool>(pool).expect("a pool")));
        for (name, initialized, tainted, reasoned) in [
            ("a", "true", true, true),
            ("b", "false", true, true),
            ("c", "true", false, true),
            ("d", "false", false, true),
            ("e", "true", false, false),
        ] {
            let labels = json!({
                "karpenter.sh/nodepool": "web", "node.kubernetes.io/instance-type": "small",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": initialized,
            });
            let at = "2026-01-01T00:00:00Z";
            let conditions = match reasoned {
                true => {
                    json!([{"type": "DisruptionReason", "status": "True", "reason": "Drifted", "message": "", "lastTransitionTime": at}])
                }
                false => json!([]),
            };
            let taints = match tainted {
                true => json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
                false => json!([]),
            };
            let id = format!("p://{name}");
            let claim = json!({"metadata": {"name": name, "uid": name, "labels": labels},
                "spec": {"requirements": [], "nodeClassRef": class}, "status": {"providerID": id, "conditions": conditions}});
            let node = json!({"metadata": {"name": name, "uid": name, "labels": labels}, "spec": {"providerID": id, "taints": taints}});
            cluster.notify(Watched::apply(
                cluster,
                from_value::<NodeClaim>(claim).expect("a claim"),
            ));
            cluster.notify(Watched::apply(cluster, from_value::<LeanNode>(node).expect("a node")));
        }
        let stale = stale(&context, context.now());
        let found: Vec<(&str, bool)> = stale.iter().map(|one| (&*one.node.claim, one.is_initialized)).collect();
        assert_eq!(found, [("a", true), ("b", false), ("c", true)]);
    }
}
