//! How nodes are drained before they end.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_runtime::Clock;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::real_control_plane::cases::{Case, case, has, play};
use crate::real_control_plane::harness::{Cluster, Picture, is_tainted, name, node_of, stays, uid};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs KUBEBUILDER_ASSETS"]
async fn real_termination_empties_nodes_in_order_and_in_time() {
    let cluster = Cluster::start("0s").await;
    let controllers = cluster.controllers();
    let stories = vec![
        // KWK-165
        case("protected", |case| {
            let template = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
            ended_in_time(case, template, true)
        }),
        // KWK-166
        case("slow", |case| {
            let template = json!({"metadata": {"annotations": {"sandbox.kerf.sh/stop-after": "300s"}}});
            ended_in_time(case, template, false)
        }),
        case("deleted", a_deleted_node),
        case("order", the_order_of_a_drain),
        case("a-while", protected_for_a_while),
    ];
    play(&cluster, stories).await;
    controllers.stop().await;
}

/// How long a node's pods have in all, and one of them by itself.
const NODE_GRACE: Duration = Duration::from_secs(30);
const POD_GRACE_SECONDS: u64 = 15;

/// A pod that would stay for ever, or for long, stays well until it has to go, and the node is gone in time.
async fn ended_in_time(case: Case, mut template: Value, protected: bool) {
    crate::merge::merge(
        &mut template,
        json!({"spec": {"terminationGracePeriodSeconds": POD_GRACE_SECONDS}}),
    );
    case.pool(json!({"template": {"spec": {"terminationGracePeriod": format!("{}s", NODE_GRACE.as_secs())}}}))
        .await;
    case.deployment("web", 1, template).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    let old = uid(&before.pods[0]);
    let its_pod = |picture: &Picture| picture.pods.iter().find(|pod| uid(*pod) == old).cloned();
    let its_node = |picture: &Picture| {
        picture
            .nodes
            .iter()
            .find(|node| name(*node) == name(&before.nodes[0]))
            .cloned()
    };
    case.delete::<kerf_api::NodeClaim>(&name(&before.claims[0])).await;
    let start = Instant::now();
    let tainted = |picture: &Picture| its_node(picture).is_some_and(|node| is_tainted(&node));
    case.until("it is tainted", 10, tainted).await;
    // What is left for the pod: until its own grace has to begin, or that grace once it was asked to go.
    case.until("it was asked to go, or may stay", 10, |picture| {
        its_pod(picture).is_some_and(|pod| stays(&pod) == protected)
    })
    .await;
    case.throughout(10, |picture| {
        let pod = its_pod(picture).expect("it is there");
        assert_eq!(stays(&pod), protected);
        assert!(is_ready(&pod));
    })
    .await;
    let gone = |picture: &Picture| {
        its_pod(picture).is_none()
            && its_node(picture).is_none()
            && picture.claims.iter().all(|claim| uid(claim) != uid(&before.claims[0]))
    };
    case.until("claim, node and pod are gone", 60, gone).await;
    let slack = Duration::from_secs(20);
    assert!(start.elapsed() < NODE_GRACE + slack, "{:?}", start.elapsed());
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_deref());
    let mut conditions = conditions.unwrap_or_default().iter();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

// KWK-167
async fn a_deleted_node(case: Case) {
    case.pool(json!({})).await;
    case.deployment("web", 1, json!({})).await;
    let before = case.until("a node", 90, |picture| picture.is_settled(1)).await;
    case.scale("web", 0).await;
    case.until("no pod", 60, |picture| picture.pods.is_empty()).await;
    case.delete::<Node>(&name(&before.nodes[0])).await;
    let none = |picture: &Picture| picture.claims.is_empty() && picture.nodes.is_empty();
    case.until("it is gone, and its claim with it", 60, none).await;
    assert_eq!(case.claims_seen(), 1);
}

const GROUPS: [&[&str]; 4] = [
    &["plain"],
    &["plain-agent"],
    &["node-critical", "cluster-critical"],
    &["node-critical-agent", "cluster-critical-agent"],
];

// KWK-168
async fn the_order_of_a_drain(case: Case) {
    case.pool(json!({})).await;
    let template = |app: &str, class: Option<&str>| {
        json!({
            "metadata": {"labels": {"app": app}, "annotations": {"sandbox.kerf.sh/stop-after": "2s"}},
            "spec": {
                "priorityClassName": class,
                "nodeSelector": {"karpenter.sh/nodepool": case.name},
                "affinity": null,
                "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}]}})
    };
    for (name, class) in [
        ("plain", None),
        ("node-critical", Some("system-node-critical")),
        ("cluster-critical", Some("system-cluster-critical")),
    ] {
        let agent = format!("{name}-agent");
        case.create_in::<DaemonSet>(json!({"metadata": {"name": agent}, "spec": {
            "selector": {"matchLabels": {"app": agent}}, "template": template(&agent, class)}}))
            .await;
        case.deployment(name, 1, template(name, class)).await;
    }
    // A KWOK node that is not ready yet would be let go without a drain (LIF-083, KWK-056).
    let full = |picture: &Picture| has(picture, 1) && picture.running() == 6;
    let before = case.until("six pods on one node", 120, full).await;
    let node = name(&before.nodes[0]);
    case.delete::<kerf_api::NodeClaim>(&name(&before.claims[0])).await;
    let mut reached = 0;
    let done = |picture: &Picture| {
        let left: Vec<(String, bool)> = picture
            .pods
            .iter()
            .filter(|pod| node_of(pod) == Some(&node))
            .map(|pod| (pod.labels().get("app").cloned().unwrap_or_default(), stays(pod)))
            .collect();
        let group = |app: &str| GROUPS.iter().position(|group| group.contains(&app)).expect("a group");
        for (ending, _) in left.iter().filter(|(_, stays)| !stays) {
            reached = reached.max(group(ending));
            let earlier = left.iter().find(|(other, _)| group(other) < group(ending));
            assert_eq!(earlier, None, "{ending} is asked to go before its time");
        }
        left.is_empty()
    };
    case.until("all have gone", 90, done).await;
    assert_eq!(reached, GROUPS.len() - 1, "nobody was asked to go");
    let gone = |picture: &Picture| picture.nodes.iter().all(|other| name(other) != node);
    case.until("the node is gone", 60, gone).await;
}

/// A protected pod's times: asked to stay for so long, and the moment it was first seen to be on its way.
fn protection(pod: &Pod) -> Option<Duration> {
    let text = pod.annotations().get("karpenter.sh/do-not-disrupt")?;
    text.strip_suffix('s')?.parse().ok().map(Duration::from_secs)
}

// KWK-140
async fn protected_for_a_while(case: Case) {
    case.pool(json!({})).await;
    for (app, protection) in [("brief", "20s"), ("longer", "35s"), ("ever", "true")] {
        let template = json!({
            "metadata": {"annotations": {"karpenter.sh/do-not-disrupt": protection}},
            "spec": {"affinity": null, "containers": [
                {"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}}]}});
        case.deployment(app, 1, template).await;
    }
    let full = |picture: &Picture| has(picture, 1) && picture.running() == 3;
    let before = case.until("three pods on one node", 90, full).await;
    let node = name(&before.nodes[0]);
    case.delete::<kerf_api::NodeClaim>(&name(&before.claims[0])).await;
    let mut left_at: BTreeMap<String, Timestamp> = BTreeMap::new();
    let of_node = |picture: &Picture| -> Vec<Pod> {
        picture
            .pods
            .iter()
            .filter(|pod| node_of(pod) == Some(&node) && stays(*pod))
            .cloned()
            .collect()
    };
    let alone = |picture: &Picture| {
        let staying = of_node(picture);
        for pod in &before.pods {
            if staying.iter().all(|other| uid(other) != uid(pod)) {
                left_at.entry(uid(pod)).or_insert_with(|| Clock::system().now());
            }
        }
        staying.len() == 1
    };
    case.until("one is left", 90, alone).await;
    for pod in &before.pods {
        let started = pod
            .status
            .as_ref()
            .and_then(|status| status.start_time.as_ref())
            .expect("it has started")
            .0;
        let Some(protection) = protection(pod) else {
            assert!(!left_at.contains_key(&uid(pod)), "the one that is protected for ever");
            continue;
        };
        let stayed = left_at[&uid(pod)].duration_since(started).as_secs_f64();
        let (least, most) = (protection.as_secs_f64() - 1.0, protection.as_secs_f64() + 15.0);
        assert!((least..most).contains(&stayed), "{}: {stayed} s", name(pod));
    }
    case.throughout(5, |picture| assert_eq!(of_node(picture).len(), 1))
        .await;
    let ever = before
        .pods
        .iter()
        .find(|pod| protection(pod).is_none())
        .expect("one of three");
    let pods: Api<Pod> = Api::namespaced(case.client.clone(), case.name);
    let loose = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": null}}});
    pods.patch(&name(ever), &PatchParams::default(), &Patch::Merge(loose))
        .await
        .expect("patched");
    let gone = |picture: &Picture| picture.nodes.iter().all(|other| name(other) != node);
    case.until("the node is gone", 60, gone).await;
}
