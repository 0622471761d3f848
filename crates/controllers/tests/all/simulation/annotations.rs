//! Invalid annotations: an event informs their owner, they cause no disruption and protect from none.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use serde_json::json;

use crate::simulation::emptiness::with_nodes;
use crate::simulation::harness::name;

// DIS-029, DIS-218: see docs/deviations.md.
#[tokio::test(start_paused = true)]
async fn nonsense_is_told_and_has_no_effect() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let (node, claim) = (simulation.nodes().await.remove(0), simulation.claims().await.remove(0));
    let annotate = |key: &str, value: &str| json!({"metadata": {"annotations": {key: value}}});
    simulation
        .patch::<Node>(&name(&node), annotate("karpenter.sh/do-not-disrupt", "4h"))
        .await;
    simulation
        .patch::<NodeClaim>(&name(&claim), annotate("karpenter.sh/do-not-disrupt", "yes"))
        .await;
    simulation
        .patch::<NodeClaim>(&name(&claim), annotate("karpenter.sh/nodepool-hash", "new"))
        .await;
    simulation
        .patch::<NodePool>("web", annotate("kerf.sh/retire-blocked", "please"))
        .await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let mut told = Vec::new();
    for reason in [
        "InvalidDoNotDisruptAnnotation",
        "InvalidNodePoolHash",
        "InvalidRetireBlocked",
    ] {
        let events = simulation.events(reason).await.into_iter();
        told.extend(events.map(|event| {
            let object = event.involved_object.kind.unwrap_or_default();
            format!("{object}: {}", event.message.unwrap_or_default())
        }));
    }
    told.sort();
    assert_eq!(
        told,
        [
            "Node: Invalid karpenter.sh/do-not-disrupt annotation: \"4h\", only \"true\" protects nodes",
            "NodeClaim: Invalid karpenter.sh/do-not-disrupt annotation: \"yes\", only \"true\" protects nodes",
            "NodeClaim: Invalid karpenter.sh/nodepool-hash annotation: \"new\", changes of the NodePool's template go unnoticed until it is \
             the value the NodePool carries",
            "NodePool: Invalid kerf.sh/retire-blocked annotation: \"please\", only \"true\" lets blocked nodes retire",
        ]
    );
    let claims = simulation.claims().await;
    assert!(claims[0].metadata.uid == claim.metadata.uid && claims[0].condition("Drifted").is_none());
    simulation.scale("web", 0).await;
    simulation.until_nodes(0, 120).await;
    simulation.stop().await;
}
