//! Clusters built from given objects.

use crate::fixture::{node, now, pod, pod_names, running, yaml};
use kerf_model::intern::sym;
use kerf_state::{ClusterObjects, Conventions};

#[test]
fn offline_input_is_completed_and_every_unbound_pod_waits() {
    let world = ClusterObjects {
        pods: vec![
            pod(
                "waits",
                "{priorityClassName: high, containers: [{name: a, resources: {limits: {cpu: '2'}}}]}",
                "{}",
            ),
            pod("gated", "{schedulingGates: [{name: g}]}", "{}"),
            pod("done", "{}", "{phase: Succeeded}"),
            running("runs", "n", "'1'"),
        ],
        nodes: vec![node("n", "", "[]")],
        priority_classes: vec![
            yaml("{metadata: {name: high}, value: 1000}"),
            yaml("{metadata: {name: usual}, value: 5, globalDefault: true}"),
        ],
        ..ClusterObjects::default()
    };
    let mut mirror = world.into_mirror(Default::default(), Conventions::default());
    assert!(mirror.sync_report().is_synced());
    let snapshot = mirror.snapshot(now());
    assert_eq!(pod_names(&snapshot.pending), ["waits"]);
    let waiting = &snapshot.pending[0];
    assert_eq!((waiting.priority, waiting.shape.requests.get(sym::CPU)), (1000, 2000));
    assert_eq!(snapshot.nodes[0].pods[0].priority, 5);
}
