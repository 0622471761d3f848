//! A hundred pods, and drift of all their nodes.

use std::collections::BTreeSet;

use kerf_api::Conditioned;
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, case, has, play, replaced};
use crate::real_control_plane::harness::{Cluster, Picture, node_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_many_pods_come_up_and_drift() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let plain = || json!({"spec": {"affinity": null}});
    let spread = |key: &str| {
        json!({"spec": {"affinity": null, "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule",
             "labelSelector": {"matchLabels": {"app": "spread"}}}]}})
    };
    let small = json!({"metadata": {"labels": {"app": "other"}}, "spec": {"containers": [
        {"name": "main", "image": "app", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}]}});
    let zones = spread("topology.kubernetes.io/zone");
    let stories = vec![
        // KWK-179
        case("simple", move |case| up_and_drifted(case, vec![("web", 100, plain())])),
        // KWK-180
        case("complex", move |case| {
            let apart = ("apart", 5, json!({}));
            up_and_drifted(
                case,
                vec![("web", 20, plain()), ("spread", 16, zones), apart, ("small", 3, small)],
            )
        }),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

// KWK-133
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_many_pods_get_a_node_each() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    play(&cluster, vec![case("apart", a_node_each)]).await;
    controllers.stop().await;
}

async fn a_node_each(case: Case) {
    case.pool(json!({})).await;
    case.deployment("web", 100, json!({})).await;
    let up = |picture: &Picture| picture.running() == 100 && has(picture, picture.claims.len());
    let all = case.until("all pods run", 240, up).await;
    let hosts: BTreeSet<_> = all.pods.iter().filter_map(node_of).collect();
    assert_eq!(hosts.len(), 100);
    // A taint manager that lags behind evicts a pod for a taint its node has lost; only such a pod may cost another node.
    assert!(
        case.claims_seen() <= case.pods_seen(),
        "{} nodes for {} pods",
        case.claims_seen(),
        case.pods_seen()
    );
}

async fn up_and_drifted(case: Case, workloads: Vec<(&'static str, usize, Value)>) {
    case.pool(json!({})).await;
    let count: usize = workloads.iter().map(|(_, replicas, _)| replicas).sum();
    for (name, replicas, mut template) in workloads {
        template["metadata"]["labels"]["app"] = name.into();
        case.deployment(name, replicas, template).await;
    }
    let up = |picture: &Picture| picture.running() == count && has(picture, picture.claims.len());
    let before = case.until("all pods run", 120, up).await;
    case.drift().await;
    let noticed = |picture: &Picture| picture.claims.iter().any(|claim| claim.condition_is_true("Drifted"));
    case.until("the first has drifted", 10, noticed).await;
    let done = |picture: &Picture| replaced(&before, picture) && up(picture) && !noticed(picture);
    case.until("none has drifted any more", 240, done).await;
}
