//! Nodes have room for daemons: with the requests their namespace defaults, and beside the host ports they use.

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Event, LimitRange, Pod};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::real_control_plane::cases::{Case, case, play};
use crate::real_control_plane::harness::{Cluster, Picture, list, name, node_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_daemons_get_their_room() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        // KWK-130
        case("limits", |case| {
            what_the_namespace_gives(case, json!({"default": {"cpu": "2"}}))
        }),
        case("requests", |case| {
            what_the_namespace_gives(case, json!({"defaultRequest": {"cpu": "2"}}))
        }),
        case("ports", host_ports_that_differ_by_architecture),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

async fn daemon_set(case: &Case, name: &str, template: Value) {
    let mut all = json!({"metadata": {"labels": {"app": name}}, "spec": {
        "nodeSelector": {"karpenter.sh/nodepool": case.name},
        "containers": [{"name": "main", "image": "agent"}]}});
    crate::merge::merge(&mut all, template);
    let manifest = json!({"metadata": {"name": name}, "spec": {
        "selector": {"matchLabels": {"app": name}}, "template": all}});
    case.create_in::<DaemonSet>(manifest).await;
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

fn is_of(pod: &Pod, app: &str) -> bool {
    pod.labels().get("app").is_some_and(|label| label == app)
}

/// A daemon whose template asks for nothing asks for two cores in this namespace.
async fn what_the_namespace_gives(case: Case, defaults: Value) {
    let mut limit = json!({"type": "Container"});
    crate::merge::merge(&mut limit, defaults);
    case.create_in::<LimitRange>(json!({"metadata": {"name": "defaults"}, "spec": {"limits": [limit]}}))
        .await;
    case.pool(json!({})).await;
    daemon_set(&case, "agent", json!({})).await;
    let asking = |cpu: &str| {
        json!({"spec": {"containers": [{"name": "main", "image": "app",
                                        "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]}})
    };
    // The first node shows what a pod of the daemon set looks like.
    case.deployment("first", 1, asking("100m")).await;
    let first = case
        .until("the daemon is known", 60, |picture| {
            picture.running() > 0 && picture.pods.iter().any(|pod| is_of(pod, "agent"))
        })
        .await;
    case.deployment("web", 1, asking("3")).await;
    let beside = |picture: &Picture| {
        let mut nodes = picture.nodes.iter().map(name);
        nodes.any(|node| {
            let here = picture
                .pods
                .iter()
                .filter(|pod| node_of(pod) == Some(&node) && runs(pod));
            let mut apps: Vec<bool> = here.map(|pod| is_of(pod, "web")).collect();
            apps.sort_unstable();
            apps == [false, true]
        })
    };
    case.until("the pod and the daemon run on one node", 60, beside).await;
    assert_eq!(case.claims_seen(), first.claims.len() + 1);
}

// KWK-101, KWK-131
async fn host_ports_that_differ_by_architecture(case: Case) {
    let port = |port: u16| {
        json!([{"name": "main", "image": "app", "ports": [{"containerPort": port, "hostPort": port}],
                "resources": {"requests": {"cpu": "100m"}}}])
    };
    case.pool(json!({})).await;
    for (architecture, taken) in [("amd64", 8080), ("arm64", 9090)] {
        let template = json!({"spec": {
            "nodeSelector": {"kubernetes.io/arch": architecture}, "containers": port(taken)}});
        daemon_set(&case, &format!("agent-{architecture}"), template).await;
    }
    for (app, wanted) in [("web", 8080), ("api", 9090)] {
        let template = json!({"spec": {"affinity": null, "containers": port(wanted)}});
        case.deployment(app, 1, template).await;
    }
    // Each pod beside the daemon of the other architecture.
    let up = case.until("four pods run", 60, |picture| picture.running() == 4).await;
    for (app, architecture) in [("web", "arm64"), ("api", "amd64")] {
        let pod = up.pods.iter().find(|pod| is_of(pod, app)).expect("a pod");
        let node = up
            .nodes
            .iter()
            .find(|node| Some(name(*node).as_str()) == node_of(pod))
            .expect("its node");
        assert_eq!(
            node.labels().get("kubernetes.io/arch").map(String::as_str),
            Some(architecture)
        );
    }
    assert_eq!(case.claims_seen(), 2);
    let events: Vec<Event> = list(&Api::namespaced(case.client.clone(), case.name)).await;
    let ours =
        |event: &&Event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter");
    let refused: Vec<_> = events
        .iter()
        .filter(ours)
        .filter(|event| event.reason.as_deref() == Some("FailedScheduling"))
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
    assert!(events.iter().any(|event| ours(&event)), "no event of ours at all");
}
