//! Nodes that only protected pods keep get no more pods, and are deleted when those have finished.

use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::NodePool;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::consolidation::filled;
use crate::simulation::harness::Simulation;

fn is_retiring(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .into_iter()
        .any(|taint| taint.key == "kerf.sh/retiring" && taint.effect == "NoSchedule")
}

async fn retiring(simulation: &Simulation) -> usize {
    simulation.nodes().await.iter().filter(|node| is_retiring(node)).count()
}

async fn ask(simulation: &Simulation, value: Value) {
    let patch = json!({"metadata": {"annotations": {"kerf.sh/retire-blocked": value}}});
    simulation.patch::<NodePool>("web", patch).await;
}

/// Three nodes that could be one, each with a little pod that must not be disrupted.
async fn blocked() -> Simulation {
    let simulation = filled(
        3,
        "spot",
        json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}),
    )
    .await;
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let little: Vec<Pod> = simulation.pods().await;
    let names = little.into_iter().filter_map(|pod| pod.metadata.name);
    for name in names.filter(|name| name.starts_with("little")) {
        let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
        api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }
    simulation.scale("big", 0).await;
    simulation
}

#[tokio::test(start_paused = true)]
async fn blocked_nodes_retire_where_their_pool_asks_for_it() {
    let simulation = blocked().await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!(retiring(&simulation).await, 0, "nobody asked");
    ask(&simulation, json!("true")).await;
    // Their three little pods fit on one node: two retire, and the last one is kept for new pods.
    simulation
        .until("two retire", 120, async |s| retiring(s).await == 2)
        .await;
    tokio::time::sleep(std::time::Duration::from_secs(120)).await;
    assert_eq!((retiring(&simulation).await, simulation.running().await), (2, 3));
    let told = simulation.messages("Retiring").await;
    assert_eq!(told.len(), 4, "{told:?}");
    // A new pod is bound to the node that is left, or to a new one, and never to one that retires.
    let node = simulation.nodes().await.into_iter().find(is_retiring).expect("one");
    let name = node.metadata.name.expect("a name");
    let on_it = async |s: &Simulation| {
        let pods = s.pods().await;
        let bound = |pod: &&Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name.as_str());
        pods.iter().filter(bound).count()
    };
    assert_eq!(on_it(&simulation).await, 1);
    simulation.scale("little", 4).await;
    simulation.until_running(4, 60).await;
    assert_eq!(on_it(&simulation).await, 1);
    // The protected pod of the node finishes: its twin goes elsewhere, and the node goes.
    let pods = simulation.pods().await;
    let mut held = pods
        .into_iter()
        .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name.as_str()));
    let pod = held.next().and_then(|pod| pod.metadata.name).expect("a pod");
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    api.delete(&pod, &DeleteParams::default()).await.expect("deleted");
    simulation
        .until("the node is gone", 180, async |s| {
            s.nodes()
                .await
                .iter()
                .all(|node| node.metadata.name.as_deref() != Some(name.as_str()))
        })
        .await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retirement_ends_with_the_annotation_and_survives_a_restart() {
    let simulation = blocked().await;
    ask(&simulation, json!("true")).await;
    simulation
        .until("two retire", 120, async |s| retiring(s).await == 2)
        .await;
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    assert_eq!(retiring(&simulation).await, 2);
    let sandbox = simulation.crash().await;
    // Nobody is there to see the annotation go.
    let pools: Api<NodePool> = Api::all(sandbox.client());
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"kerf.sh/retire-blocked": null}}}));
    pools
        .patch("web", &PatchParams::default(), &patch)
        .await
        .expect("patched");
    let simulation = Simulation::join(sandbox, |_| {});
    simulation
        .until("all take pods again", 60, async |s| retiring(s).await == 0)
        .await;
    simulation.stop().await;
}
