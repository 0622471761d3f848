//! Somebody makes every new node useless: nodes are launched, but deleted as well.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::real_control_plane::cases::{Case, case, play};
use crate::real_control_plane::harness::{Cluster, name};

/// Fewer nodes than this are there at any time.
const NODES: usize = 35;
/// Long enough for nodes to be deleted as often as they are created.
const WATCHED: Duration = Duration::from_secs(75);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_runaway_scale_up_is_bounded() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        // KWK-116
        case("consolidation", |case| {
            let spot = json!([{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                              {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]}]);
            let disruption = json!({"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"});
            spoiled(
                case,
                json!({"template": {"spec": {"requirements": spot}}, "disruption": disruption}),
            )
        }),
        // KWK-117
        case("emptiness", |case| {
            let disruption = json!({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"});
            spoiled(case, json!({"disruption": disruption}))
        }),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// Taints every node of the pool as soon as it is seen, so that the pod on it is evicted and needs another.
async fn spoiled(case: Case, pool: Value) {
    case.pool(pool).await;
    case.deployment("web", 1, json!({})).await;
    let nodes: Api<Node> = Api::all(case.client.clone());
    let (mut most, mut ever) = (0, std::collections::BTreeSet::new());
    let end = Instant::now() + WATCHED;
    while Instant::now() < end {
        let picture = case.until("a node", 60, |picture| !picture.nodes.is_empty()).await;
        most = most.max(picture.nodes.len());
        assert!(most < NODES, "{} nodes", picture.nodes.len());
        for node in picture.nodes {
            if !ever.insert(name(&node)) {
                continue;
            }
            let mut taints = node.spec.clone().and_then(|spec| spec.taints).unwrap_or_default();
            taints.push(Taint {
                key: "test".to_owned(),
                value: Some("true".to_owned()),
                effect: "NoExecute".to_owned(),
                ..Taint::default()
            });
            let version = node.metadata.resource_version.clone();
            let patch = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
            let patch = Patch::Merge(patch);
            // A Node that was written meanwhile is tried again.
            if nodes
                .patch(&name(&node), &PatchParams::default(), &patch)
                .await
                .is_err()
            {
                ever.remove(&name(&node));
            }
        }
    }
    assert!(
        ever.len() > most,
        "{most} at once of {} in all: none ever went",
        ever.len()
    );
}
