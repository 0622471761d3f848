//! NodeOverlays behind their gate.

use kerf_api::{Conditioned, NodeOverlay, annotations};
use serde_json::json;

use crate::simulation::harness::{Simulation, create, list};
use crate::simulation::logs::Logs;

#[tokio::test(start_paused = true)]
async fn an_overlay_changes_prices_once_it_is_evaluated() {
    let logs = Logs::listen();
    let simulation = Simulation::start_with(|options| options.feature_gates.node_overlay = true).await;
    let overlay = json!({"metadata": {"name": "discount"}, "spec": {
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
        "priceAdjustment": "-10%",
    }});
    create::<NodeOverlay>(&simulation.client(), overlay).await;
    let conflicting = json!({"metadata": {"name": "again"}, "spec": {
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}], "price": "1"}});
    create::<NodeOverlay>(&simulation.client(), conflicting).await;
    simulation.pool("web", json!({})).await;
    let only = json!({"nodeSelector": {"kubernetes.io/arch": "amd64"}});
    simulation.deployment("web", 1, "1", only).await;
    // SCH-374: a pool whose overlays were not evaluated would be skipped.
    simulation.until_running(1, 120).await;
    // OPS-040
    let skipped = logs.with("DEBUG skipping, awaiting nodeoverlay evaluation NodePool=web");
    assert!(!skipped.is_empty());
    // SCH-373
    let claim = simulation.claims().await.pop().expect("one");
    let marks = claim.metadata.annotations.expect("annotations");
    assert_eq!(
        marks.get(annotations::PRICE_OVERLAY_APPLIED).map(String::as_str),
        Some("true")
    );
    // SCH-361 SCH-366: of two that conflict the later by name is in force.
    let overlays: Vec<NodeOverlay> = list(&simulation.client()).await;
    let verdict = |overlay: &NodeOverlay| {
        let condition = overlay.condition("ValidationSucceeded").expect("a verdict");
        (condition.status.as_str(), condition.reason().to_owned())
    };
    let verdicts: Vec<_> = overlays.iter().map(verdict).collect();
    assert_eq!(
        verdicts,
        [
            ("False", "Conflict".to_owned()),
            ("True", "ValidationSucceeded".to_owned())
        ]
    );
    simulation.stop().await;
}
