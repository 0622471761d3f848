//! The end of nodes: drained in order, within their deadline, with nothing left behind.

use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Conditioned, NodeClaim};
use kerf_runtime::metrics::catalogue::{
    NODECLAIMS_TERMINATED, NODES_DRAINED, NODES_TERMINATED, PODS_DRAINED, PODS_EVICTION_REQUESTS,
};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::logs::Logs;

async fn with_one_pod(pool: Value, pod: Value) -> (Simulation, NodeClaim, Node) {
    let simulation = Simulation::with_one_pod(pool, pod).await;
    let claim = simulation.claims().await.pop().expect("a claim");
    let node = simulation.nodes().await.pop().expect("a node");
    (simulation, claim, node)
}

async fn is_gone(simulation: &Simulation, claim: &NodeClaim, node: &Node) -> bool {
    let claims = simulation.claims().await;
    let nodes = simulation.nodes().await;
    claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
        && nodes.iter().all(|other| other.metadata.uid != node.metadata.uid)
}

/// Waits until a claim and its Node are gone.
async fn until_gone(simulation: &Simulation, seconds: u64, claim: &NodeClaim, node: &Node) {
    let gone = async |s: &Simulation| is_gone(s, claim, node).await;
    simulation.until("both are gone", seconds, gone).await;
}

async fn scale_to_zero(simulation: &Simulation) {
    simulation.scale("web", 0).await;
    simulation
        .until("no pod is left", 60, async |s| s.pods().await.is_empty())
        .await;
}

#[tokio::test(start_paused = true)]
async fn deleting_a_node_ends_its_claim_and_moves_its_pods() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    simulation.delete::<Node>(&name(&node)).await;
    let tainted = async |s: &Simulation| {
        let nodes = s.nodes().await;
        let Some(old) = nodes.iter().find(|other| other.metadata.uid == node.metadata.uid) else {
            return true;
        };
        let taints = old
            .spec
            .as_ref()
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default();
        let labels = old.metadata.labels.clone().unwrap_or_default();
        let excluded = labels.get("node.kubernetes.io/exclude-from-external-load-balancers");
        taints
            .iter()
            .any(|taint| taint.key == "karpenter.sh/disrupted" && taint.effect == "NoSchedule")
            && excluded.map(String::as_str) == Some("karpenter")
    };
    // LIF-084
    simulation.until("it is tainted", 3, tainted).await;
    // LIF-082
    let ends = async |s: &Simulation| {
        let claim = s.current_claim(&claim).await;
        claim.is_none_or(|claim| claim.metadata.deletion_timestamp.is_some())
    };
    simulation.until("its claim is deleted", 3, ends).await;
    until_gone(&simulation, 120, &claim, &node).await;
    simulation.until_running(1, 120).await;
    let metrics = &simulation.context.metrics;
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let (zone, capacity_type) = (
        &labels["topology.kubernetes.io/zone"],
        &labels["karpenter.sh/capacity-type"],
    );
    // LIF-093, OPS-122
    assert_eq!(metrics.counter(&NODES_TERMINATED).get(&["web", zone]), 1.0);
    // LIF-079, OPS-116
    assert_eq!(
        metrics
            .counter(&NODECLAIMS_TERMINATED)
            .get(&["web", capacity_type, zone]),
        1.0
    );
    // LIF-087, OPS-123
    assert_eq!(metrics.counter(&NODES_DRAINED).get(&["web"]), 1.0);
    // LIF-110, LIF-111, OPS-127
    assert_eq!(metrics.counter(&PODS_DRAINED).get(&["Forceful Termination"]), 1.0);
    // OPS-196
    let evicted = simulation.events("Evicted").await;
    assert_eq!(
        evicted
            .iter()
            .filter_map(|event| event.message.as_deref())
            .collect::<Vec<_>>(),
        ["Evicted pod: Forceful Termination"]
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_still_takes_five_seconds() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    scale_to_zero(&simulation).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    // LIF-087
    assert!(!is_gone(&simulation, &claim, &node).await);
    // LIF-086: see docs/deviations.md. The drain of a node without pods is written once, with its end.
    let waiting = simulation.current_claim(&claim).await.expect("it waits");
    assert!(waiting.condition("Drained").is_none(), "{waiting:?}");
    let drained = async |s: &Simulation| {
        let claim = s.current_claim(&claim).await;
        claim.is_none_or(|claim| claim.condition_is_true("Drained"))
    };
    simulation.until("it is drained", 3, drained).await;
    // LIF-072, LIF-095
    until_gone(&simulation, 10, &claim, &node).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_stops_a_drain_until_it_allows_more() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    simulation.budget(1).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    // LIF-086, OPS-198
    let waits = async |s: &Simulation| {
        let events = s.events("FailedDraining").await;
        let text = "Failed to drain node, 1 pods are waiting to be evicted";
        events.iter().any(|event| event.message.as_deref() == Some(text))
    };
    simulation.until("it says so", 60, waits).await;
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    // LIF-104, LIF-122
    assert!(!is_gone(&simulation, &claim, &node).await);
    assert_eq!(simulation.running().await, 1);
    // API-114
    let draining = simulation.current_claim(&claim).await.expect("it waits");
    let drained = draining.condition("Drained").expect("the condition");
    assert_eq!(
        (drained.status.to_string().as_str(), drained.reason(), drained.message()),
        ("Unknown", "Draining", "Draining")
    );
    // OPS-126
    let asked = simulation
        .context
        .metrics
        .counter(&PODS_EVICTION_REQUESTS)
        .get(&["429"]);
    // LIF-108, LIF-109: once every ten seconds in the end.
    assert!((110.0..140.0).contains(&asked), "{asked}");
    let api: Api<PodDisruptionBudget> = Api::namespaced(simulation.client(), "default");
    api.delete("web", &DeleteParams::default()).await.expect("deleted");
    until_gone(&simulation, 60, &claim, &node).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_of_a_node_ends_what_protects_its_pods() {
    let logs = Logs::listen();
    let pool = json!({"template": {"spec": {"terminationGracePeriod": "60s"}}});
    let (simulation, claim, node) = with_one_pod(pool, json!({"terminationGracePeriodSeconds": 30})).await;
    simulation.budget(1).await;
    let pod = simulation.pods().await.pop().expect("a pod");
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let patch = kube::api::Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    api.patch(&name(&pod), &kube::api::PatchParams::default(), &patch)
        .await
        .expect("patched");
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let began = simulation.context.clock.now();
    tokio::time::sleep(Duration::from_secs(25)).await;
    // LIF-227
    assert_eq!(
        api.get(&name(&pod)).await.expect("there").metadata.deletion_timestamp,
        None
    );
    let deleting = simulation
        .claims()
        .await
        .into_iter()
        .find(|other| other.metadata.uid == claim.metadata.uid);
    let annotations = deleting
        .and_then(|claim| claim.metadata.annotations)
        .unwrap_or_default();
    let deadline = annotations
        .get("karpenter.sh/nodeclaim-termination-timestamp")
        .expect("a deadline");
    let deadline: jiff::Timestamp = deadline.parse().expect("a time");
    // LIF-068
    assert!((deadline - began).get_seconds().abs_diff(60) <= 1, "{deadline} {began}");
    // LIF-114, LIF-117
    let terminating = async |_: &Simulation| {
        let pod = api.get_opt(&name(&pod)).await.expect("an answer");
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    };
    simulation.until("the pod goes", 15, terminating).await;
    until_gone(&simulation, 45, &claim, &node).await;
    let event = simulation.events("Disrupted").await.pop().expect("an event");
    let message = event.message.unwrap_or_default();
    // OPS-261
    let told = logs.with(&format!("DEBUG deleting pod Pod=default/{} ", name(&pod)));
    assert_eq!(told.len(), 1, "{told:?}");
    // LIF-119, OPS-197, OPS-260
    assert!(
        message.starts_with("Deleting the pod to accommodate the terminationTime 2026-01-01 "),
        "{message}"
    );
    assert!(
        message.contains(" of its 30 terminationGracePeriodSeconds. This bypasses the PDB"),
        "{message}"
    );
    // LIF-069
    let warned = simulation.events("TerminationGracePeriodExpiring").await;
    // OPS-200
    for kind in ["Node", "NodeClaim"] {
        let of_kind = |event: &&k8s_openapi::api::core::v1::Event| event.involved_object.kind.as_deref() == Some(kind);
        let event = warned.iter().find(of_kind).expect("one for each");
        assert_eq!(event.type_.as_deref(), Some("Warning"));
        let message = event.message.as_deref().unwrap_or_default();
        let until = message.strip_prefix("All pods will be deleted by ").expect("its text");
        assert_eq!(until.parse().ok(), Some(deadline), "{message}");
    }
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_claim_is_drained_and_let_go() {
    let simulation = Simulation::start().await;
    let node = json!({"metadata": {
        "name": "stray", "finalizers": ["karpenter.sh/termination", "example.com/other"],
        "labels": {"karpenter.kwok.sh/kwoknodeclass": "default"},
    }, "spec": {}});
    create::<Node>(&simulation.client(), node).await;
    let foreign = json!({"metadata": {"name": "foreign", "finalizers": ["karpenter.sh/termination"]}, "spec": {}});
    create::<Node>(&simulation.client(), foreign).await;
    for name in ["stray", "foreign"] {
        simulation.delete::<Node>(name).await;
    }
    let released = async |s: &Simulation| {
        let nodes = s.nodes().await;
        let stray = nodes.iter().find(|node| node.metadata.name.as_deref() == Some("stray"));
        stray.is_some_and(|node| node.metadata.finalizers == Some(vec!["example.com/other".to_owned()]))
    };
    // LIF-082, LIF-092
    simulation.until("ours is released", 10, released).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // LIF-242
    assert!(
        simulation
            .nodes()
            .await
            .iter()
            .any(|node| node.metadata.name.as_deref() == Some("foreign"))
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_never_registered_leaves_without_a_drain() {
    let simulation = Simulation::start().await;
    simulation.slow_class("10s").await;
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"});
    let kind = json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux"]}]);
    let claim = json!({"metadata": {"name": "early"}, "spec": {"nodeClassRef": class, "requirements": kind}});
    create::<NodeClaim>(&simulation.client(), claim).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    simulation.delete::<NodeClaim>("early").await;
    // LIF-073
    simulation.until_claims(0, 3).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(simulation.nodes().await.is_empty());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn each_group_of_pods_waits_for_the_one_before() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    for (pod, class) in [("plain", ""), ("critical", "system-cluster-critical")] {
        let mut spec = json!({"nodeName": name(&node), "terminationGracePeriodSeconds": 60, "containers": [{"name": "main", "image": "app"}]});
        if !class.is_empty() {
            spec["priorityClassName"] = json!(class);
        }
        let annotations = json!({"sandbox.kerf.sh/stop-after": "30s"});
        let pod = json!({"metadata": {"name": pod, "annotations": annotations}, "spec": spec});
        let pod = serde_json::from_value(pod).expect("a pod");
        api.create(&PostParams::default(), &pod).await.expect("created");
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let is_going = async |pod: &str| {
        let pod = api.get_opt(pod).await.expect("an answer");
        pod.is_none_or(|pod| pod.metadata.deletion_timestamp.is_some())
    };
    tokio::time::sleep(Duration::from_secs(20)).await;
    // LIF-229
    assert!(is_going("plain").await);
    assert!(!is_going("critical").await);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(is_going("critical").await);
    until_gone(&simulation, 60, &claim, &node).await;
    simulation.stop().await;
}

// LIF-111, OPS-127, OPS-196
#[tokio::test(start_paused = true)]
async fn an_eviction_says_why_its_node_goes() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    simulation
        .until("it is initialized", 30, async |s| {
            s.claims().await[0].condition_is_true("Initialized")
        })
        .await;
    simulation.change_template("2").await;
    until_gone(&simulation, 300, &claim, &node).await;
    assert_eq!(simulation.messages("Evicted").await, ["Evicted pod: Drifted"]);
    let drained = simulation.context.metrics.counter(&PODS_DRAINED);
    assert_eq!(drained.get(&["Drifted"]), 1.0);
    simulation.stop().await;
}

// LIF-111, OPS-196
#[tokio::test(start_paused = true)]
async fn an_eviction_from_a_node_without_a_claim_says_no_reason() {
    let simulation = Simulation::start().await;
    let node = json!({"metadata": {
        "name": "stray",
        "finalizers": ["karpenter.sh/termination"],
        "labels": {"karpenter.kwok.sh/kwoknodeclass": "default"},
        // It has a kubelet.
        "annotations": {"kwok.x-k8s.io/node": "fake"},
    }, "spec": {}});
    create::<Node>(&simulation.client(), node).await;
    let pod = json!({"metadata": {"name": "stray"}, "spec": {
        "nodeName": "stray", "containers": [{"name": "main", "image": "app"}],
    }});
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let pod = serde_json::from_value(pod).expect("a pod");
    api.create(&PostParams::default(), &pod).await.expect("created");
    // A kubelet that is not ready ends no pods.
    simulation
        .until("it runs on a ready node", 60, async |s| {
            let spec = s.nodes().await.remove(0).spec.unwrap_or_default();
            s.running().await == 1 && spec.taints.is_none_or(|taints| taints.is_empty())
        })
        .await;
    simulation.delete::<Node>("stray").await;
    simulation.until_nodes(0, 60).await;
    assert_eq!(simulation.messages("Evicted").await, ["Evicted pod: "]);
    simulation.stop().await;
}

// LIF-084
#[tokio::test(start_paused = true)]
async fn nothing_is_evicted_before_its_node_is_marked() {
    let tolerations = json!([{"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3600}]);
    let (simulation, claim, node) = with_one_pod(json!({}), json!({"tolerations": tolerations})).await;
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    api_faults.on(
        Method::POST,
        "/eviction",
        CallFault::Refused(StatusCode::TOO_MANY_REQUESTS),
    );
    // Somebody used the key for something else.
    let taint = json!([{"key": "karpenter.sh/disrupted", "effect": "NoExecute"}]);
    let node = name(&node);
    simulation
        .patch::<Node>(&node, json!({"spec": {"taints": taint}}))
        .await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation
        .until("an eviction is asked for", 10, async |_| {
            !api_faults.writes("/eviction").is_empty()
        })
        .await;
    let marked = simulation.nodes().await.remove(0);
    let taints = marked.spec.and_then(|spec| spec.taints).unwrap_or_default();
    let taints: Vec<_> = taints.iter().map(|taint| (&*taint.key, &*taint.effect)).collect();
    assert_eq!(taints, [("karpenter.sh/disrupted", "NoSchedule")]);
    let labels = marked.metadata.labels.unwrap_or_default();
    let excluded = labels.get("node.kubernetes.io/exclude-from-external-load-balancers");
    assert_eq!(excluded.map(String::as_str), Some("karpenter"));
    // In one patch, before any eviction.
    let calls: Vec<String> = api_faults.writes("").into_iter().map(|write| write.call).collect();
    let patched = format!("PATCH /api/v1/nodes/{node}");
    let patches = calls.iter().take_while(|call| !call.ends_with("/eviction"));
    assert_eq!(patches.filter(|call| **call == patched).count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| **call == patched).count(), 1, "{calls:?}");
    simulation.stop().await;
}

// LIF-084
#[tokio::test(start_paused = true)]
async fn a_node_that_is_tainted_already_leaves_its_load_balancers_too() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    simulation.budget(1).await;
    let taint = json!([{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]);
    simulation
        .patch::<Node>(&name(&node), json!({"spec": {"taints": taint}}))
        .await;
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    let excluded = async |s: &Simulation| {
        let labels = s.nodes().await.remove(0).metadata.labels.unwrap_or_default();
        labels
            .get("node.kubernetes.io/exclude-from-external-load-balancers")
            .map(String::as_str)
            == Some("karpenter")
    };
    simulation.until("the label is there", 10, excluded).await;
    simulation.stop().await;
}

// LIF-104
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_protected_while_its_eviction_waits_stays() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    api_faults.on(
        Method::POST,
        "/eviction",
        CallFault::Refused(StatusCode::TOO_MANY_REQUESTS),
    );
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    simulation
        .until("an eviction is asked for", 10, async |_| {
            !api_faults.writes("/eviction").is_empty()
        })
        .await;
    let pod = name(&simulation.pods().await.remove(0));
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let protect = async |value: Value| {
        let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
        let patch = kube::api::Patch::Merge(patch);
        let params = kube::api::PatchParams::default();
        pods.patch(&pod, &params, &patch).await.expect("annotated");
        tokio::time::sleep(Duration::from_secs(2)).await;
    };
    protect(json!("true")).await;
    let asked = api_faults.writes("/eviction").len();
    api_faults.heal();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(api_faults.writes("/eviction").len(), asked, "nobody asks any longer");
    let stays = pods.get(&pod).await.expect("there");
    assert_eq!(stays.metadata.deletion_timestamp, None);
    protect(Value::Null).await;
    until_gone(&simulation, 60, &claim, &node).await;
    simulation.stop().await;
}

// LIF-109
#[tokio::test(start_paused = true)]
async fn an_eviction_nobody_answered_has_no_code() {
    let (simulation, claim, node) = with_one_pod(json!({}), json!({})).await;
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    api_faults.on(Method::POST, "/eviction", CallFault::Lost);
    simulation.delete::<NodeClaim>(&name(&claim)).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let asked = api_faults.writes("/eviction").len();
    assert!(asked > 3, "{asked}");
    let metrics = simulation.context.metrics.encode();
    assert!(
        !metrics.contains("karpenter_pods_eviction_requests_total{"),
        "{metrics}"
    );
    api_faults.heal();
    until_gone(&simulation, 60, &claim, &node).await;
    let answers = simulation.context.metrics.counter(&PODS_EVICTION_REQUESTS);
    assert_eq!(answers.get(&["200"]), 1.0);
    simulation.stop().await;
}
