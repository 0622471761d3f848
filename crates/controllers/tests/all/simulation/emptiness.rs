//! Empty nodes are deleted when they may be, and as many as may be.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_runtime::client::{Lock, patch_status};
use kerf_runtime::metrics::catalogue::{
    DISRUPTION_DECISIONS, DISRUPTION_DECISIONS_BY_NODEPOOL, DISRUPTION_ELIGIBLE_NODES, DISRUPTION_FAILED_VALIDATIONS,
    NODECLAIMS_DISRUPTED,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::api_faults::{ApiFaults, CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, name};

/// Pods that want a node each.
pub(crate) fn apart(name: &str) -> Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]}}})
}

/// Whether a Node is marked as one that is to go.
pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .into_iter()
        .any(|taint| taint.key == "karpenter.sh/disrupted" && taint.effect == "NoSchedule")
}

pub(crate) async fn tainted(simulation: &Simulation) -> usize {
    simulation.nodes().await.iter().filter(|node| is_tainted(node)).count()
}

/// Waits half a minute until as many nodes are marked.
pub(crate) async fn until_tainted(simulation: &Simulation, count: usize) {
    let marked = async |s: &Simulation| tainted(s).await == count;
    simulation.until("the nodes are marked", 30, marked).await;
}

/// A cluster with as many nodes as pods.
pub(crate) async fn with_nodes(count: usize, disruption: Value) -> Simulation {
    let simulation = Simulation::start().await;
    simulation.populate(count, json!({"disruption": disruption})).await;
    simulation
}

/// The value of a series, given its name and labels as a scrape has them; `None` where there is no such series.
fn scraped(simulation: &Simulation, series: &str) -> Option<f64> {
    let text = simulation.context.metrics.encode();
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}

/// What the budgets of the pool `web` allow for emptied nodes, and how many nodes use them up.
fn shown(simulation: &Simulation) -> [Option<f64>; 2] {
    ["allowed_disruptions", "nodes_consuming_budgets"].map(|gauge| {
        let series = format!("karpenter_nodepools_{gauge}{{nodepool=\"web\",reason=\"Empty\"}}");
        scraped(simulation, &series)
    })
}

/// What the evaluations of emptiness took: a part of the histogram.
fn evaluated(simulation: &Simulation, part: &str, bound: &str) -> Option<f64> {
    let name = "karpenter_voluntary_disruption_decision_evaluation_duration_seconds";
    let labels = "consolidation_type=\"empty\",reason=\"empty\"";
    scraped(simulation, &format!("{name}_{part}{{{labels}{bound}}}"))
}

async fn consolidatable(simulation: &Simulation) -> usize {
    let claims = simulation.claims().await;
    claims
        .iter()
        .filter(|claim| claim.condition_is_true("Consolidatable"))
        .count()
}

fn last_pod_event(claim: &NodeClaim) -> Option<Timestamp> {
    Some(claim.status.as_ref()?.last_pod_event_time.as_ref()?.0)
}

#[tokio::test(start_paused = true)]
async fn an_empty_node_goes_when_it_was_left_alone_for_long_enough() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "30s"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // LIF-142: left alone is not empty.
    assert_eq!((consolidatable(&simulation).await, tainted(&simulation).await), (1, 0));
    let spent = evaluated(&simulation, "sum", "").expect("passes");
    simulation.scale("web", 0).await;
    simulation
        .until("the window starts anew", 5, async |s| consolidatable(s).await == 0)
        .await;
    let event = last_pod_event(&simulation.claims().await[0]).expect("a pod event");
    simulation
        .until("the node is marked", 120, async |s| tainted(s).await == 1)
        .await;
    let waited = simulation.context.now().duration_since(event).as_secs();
    // DIS-127, DIS-300: consolidateAfter, at most 10 s until the next pass, and the 15 s a command is waited with.
    assert!((45..=57).contains(&waited), "{waited} s");
    let claim = simulation.claims().await.pop().expect("a claim");
    // DIS-258, API-118
    let reason = claim.condition("DisruptionReason").expect("a reason");
    assert_eq!(
        (reason.status.as_str(), reason.reason(), reason.message()),
        ("True", "Empty", "Empty")
    );
    simulation
        .until("it is gone", 60, async |s| {
            s.nodes().await.is_empty() && s.claims().await.is_empty()
        })
        .await;

    let metrics = &simulation.context.metrics;
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    // DIS-268, OPS-156
    assert_eq!(
        metrics
            .counter(&DISRUPTION_DECISIONS)
            .get(&["delete", "empty", "empty"]),
        1.0
    );
    // OPS-157
    let by_pool = metrics.counter(&DISRUPTION_DECISIONS_BY_NODEPOOL);
    assert_eq!(by_pool.get(&["web", "delete", "empty", "empty"]), 1.0);
    // DIS-277
    let disrupted = metrics.counter(&NODECLAIMS_DISRUPTED);
    assert_eq!(
        disrupted.get(&["empty", "web", &labels["karpenter.sh/capacity-type"]]),
        1.0
    );
    // OPS-191
    let mut told: Vec<String> = simulation
        .events("DisruptionTerminating")
        .await
        .into_iter()
        .filter_map(|event| event.message)
        .collect();
    told.sort();
    assert_eq!(told, ["Disrupting Node: Empty", "Disrupting NodeClaim: Empty"]);
    tokio::time::sleep(Duration::from_secs(15)).await;
    // DIS-018: the one command was waited with, and nothing else took time.
    let of = |part: &str, bound: &str| evaluated(&simulation, part, bound).expect("a series");
    let spent = of("sum", "") - spent;
    assert!((15.0..16.0).contains(&spent), "{spent} s");
    assert_eq!(of("bucket", ",le=\"20\"") - of("bucket", ",le=\"10\""), 1.0);
    assert_eq!(of("bucket", ",le=\"0.005\""), of("count", "") - 1.0);
    assert_eq!(of("bucket", ",le=\"600\""), of("count", ""));
    // DIS-019, OPS-158
    assert_eq!(metrics.gauge(&DISRUPTION_ELIGIBLE_NODES).get(&["empty"]), 0.0);
    simulation.stop().await;
}

// DIS-087, DIS-153, DIS-269
#[tokio::test(start_paused = true)]
async fn no_more_go_at_once_than_the_budget_allows() {
    let simulation = with_nodes(5, json!({"consolidateAfter": "0s", "budgets": [{"nodes": "2"}]})).await;
    simulation.scale("web", 0).await;
    let mut most = 0;
    let end = tokio::time::Instant::now() + Duration::from_secs(300);
    while !simulation.nodes().await.is_empty() {
        most = most.max(tainted(&simulation).await);
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(most, 2);
    simulation.stop().await;
}

// DIS-084, DIS-085, DIS-299, OPS-188, OPS-259
#[tokio::test(start_paused = true)]
async fn a_closed_budget_keeps_nodes_and_says_so() {
    let simulation = with_nodes(2, json!({"consolidateAfter": "0s", "budgets": [{"nodes": "0"}]})).await;
    simulation.scale("web", 0).await;
    for _ in 0..60 {
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert_eq!(tainted(&simulation).await, 0);
    }
    assert_eq!(consolidatable(&simulation).await, 2);
    let events = simulation.events("DisruptionBlocked").await;
    let of_pool = events
        .iter()
        .find(|event| event.involved_object.kind.as_deref() == Some("NodePool"))
        .expect("an event");
    assert_eq!(
        of_pool.message.as_deref(),
        Some("No allowed disruptions for disruption reason Empty due to blocking budget")
    );
    assert_eq!(shown(&simulation), [Some(0.0), Some(0.0)]);
    // DIS-092
    let patch = json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation.until_nodes(0, 60).await;
    simulation.stop().await;
}

// DIS-071, DIS-083, DIS-084, API-209
#[tokio::test(start_paused = true)]
async fn what_budgets_allow_and_what_uses_them_up_are_shown_apart() {
    let simulation = with_nodes(5, json!({"consolidateAfter": "0s", "budgets": [{"nodes": "2"}]})).await;
    for node in simulation.nodes().await.iter().take(3) {
        simulation.set_kubelet(node, Some("not-ready")).await;
    }
    tokio::time::sleep(Duration::from_secs(15)).await;
    simulation.scale("web", 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // More are away than may be: nothing goes, and what is allowed is shown as the budget says.
    assert_eq!(tainted(&simulation).await, 0);
    assert_eq!(shown(&simulation), [Some(2.0), Some(3.0)]);
    let patch = json!({"spec": {"disruption": {"budgets": []}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation
        .until("there is no limit", 15, async |s| {
            shown(s) == [Some(2_147_483_647.0), Some(3.0)]
        })
        .await;
    simulation.stop().await;
}

// DIS-029, DIS-031, OPS-187
#[tokio::test(start_paused = true)]
async fn an_annotated_node_stays_until_the_annotation_goes() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let node = simulation.nodes().await[0].metadata.name.clone().expect("a name");
    let annotate = |value: Value| json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    simulation.patch::<Node>(&node, annotate(json!("true"))).await;
    simulation.scale("web", 0).await;
    // What kept the node while it started was reported under the same key, which is good for two minutes (DIS-289).
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!((simulation.nodes().await.len(), tainted(&simulation).await), (1, 0));
    let text = "Disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation";
    let events = simulation.events("DisruptionBlocked").await;
    let mut kinds: Vec<&str> = events
        .iter()
        .filter(|event| event.message.as_deref() == Some(text))
        .filter_map(|event| event.involved_object.kind.as_deref())
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, ["Node", "NodeClaim"]);
    simulation.patch::<Node>(&node, annotate(Value::Null)).await;
    simulation.until_nodes(0, 60).await;
    simulation.stop().await;
}

// DIS-155, DIS-156, DIS-191, OPS-160
#[tokio::test(start_paused = true)]
async fn a_pod_that_comes_during_the_wait_saves_its_node() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let claim = simulation.claims().await[0].metadata.uid.clone();
    simulation.scale("web", 0).await;
    let eligible = simulation.context.metrics.gauge(&DISRUPTION_ELIGIBLE_NODES);
    simulation
        .until("it is chosen", 30, async |_| eligible.get(&["empty"]) == 1.0)
        .await;
    simulation.scale("web", 1).await;
    simulation.until_running(1, 10).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(simulation.claims().await[0].metadata.uid, claim);
    assert_eq!(tainted(&simulation).await, 0);
    let failed = simulation.context.metrics.counter(&DISRUPTION_FAILED_VALIDATIONS);
    assert_eq!(failed.get(&["empty"]), 1.0);
    simulation.stop().await;
}

// DIS-117, DIS-150
#[tokio::test(start_paused = true)]
async fn a_pool_that_never_consolidates_keeps_its_empty_nodes() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    simulation.scale("web", 0).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        (simulation.nodes().await.len(), consolidatable(&simulation).await),
        (1, 0)
    );
    let events = simulation.events("Unconsolidatable").await;
    assert!(
        events
            .iter()
            .all(|event| event.message.as_deref() == Some("NodePool \"web\" has consolidation disabled"))
    );
    // DIS-290: once per object in a quarter of an hour.
    assert_eq!(events.len(), 2);
    simulation.stop().await;
}

// DIS-010, DIS-011, DIS-012, DIS-014
#[tokio::test(start_paused = true)]
async fn marks_nobody_stands_behind_are_removed() {
    let simulation = with_nodes(2, json!({"consolidateAfter": "Never"})).await;
    let sandbox = simulation.crash().await;
    let claims: Vec<NodeClaim> = crate::simulation::harness::list(&sandbox.client()).await;
    let nodes: Api<Node> = Api::all(sandbox.client());
    for claim in &claims {
        let node = claim
            .status
            .as_ref()
            .and_then(|status| status.node_name.clone())
            .expect("a node");
        let taints = json!({"spec": {"taints": [
            {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, {"key": "mine", "effect": "NoSchedule"}]}});
        nodes
            .patch(&node, &PatchParams::default(), &Patch::Merge(taints))
            .await
            .expect("tainted");
        let mut marked = claim.clone();
        let now = sandbox.clock().now();
        kerf_api::ConditionSet::new(&mut marked, now).set_true_because("DisruptionReason", "Drifted", "Drifted");
        let api = Api::all(sandbox.client());
        let written = patch_status(&api, claim, &marked, Lock::Optimistic).await;
        written.expect("written");
    }
    let simulation = Simulation::join(sandbox, |_| {});
    let clean = async |s: &Simulation| {
        let reasons = s
            .claims()
            .await
            .iter()
            .filter(|claim| claim.condition("DisruptionReason").is_some())
            .count();
        reasons == 0 && tainted(s).await == 0
    };
    // API-118, OPS-063
    simulation.until("the marks are gone", 15, clean).await;
    for node in simulation.nodes().await {
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        assert_eq!(
            taints.iter().map(|taint| taint.key.as_str()).collect::<Vec<_>>(),
            ["mine"]
        );
    }
    simulation.stop().await;
}

/// Has the next PATCH of an object arrive late.
fn delay_next(api_faults: &ApiFaults, path: &str) {
    let (path, waits) = (path.to_owned(), AtomicBool::new(true));
    api_faults.forget();
    api_faults.rule(move |request| {
        let hit = *request.method() == Method::PATCH && request.uri().path() == path;
        match hit && waits.swap(false, Ordering::Relaxed) {
            true => CallFault::Late(Duration::from_secs(3)),
            false => CallFault::None,
        }
    });
}

// DIS-011, DIS-257
#[tokio::test(start_paused = true)]
async fn taints_that_come_while_a_mark_is_on_its_way_survive() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    let node = name(&simulation.nodes().await[0]);
    let path = format!("/api/v1/nodes/{node}");
    let taint = async |keys: &[&str]| {
        let taint = |key: &&str| json!({"key": key, "effect": "NoSchedule"});
        let taints: Vec<Value> = keys.iter().map(taint).collect();
        simulation
            .patch::<Node>(&node, json!({"spec": {"taints": taints}}))
            .await;
    };
    let sent = async |_: &Simulation| !api_faults.writes(&path).is_empty();
    let keys = async |s: &Simulation| {
        let nodes = s.nodes().await;
        let node = nodes.iter().find(|other| name(*other) == node).expect("the node");
        let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
        let mut keys: Vec<String> = taints.map(|taint| taint.key.clone()).collect();
        keys.sort();
        keys
    };

    delay_next(&api_faults, &path);
    taint(&["karpenter.sh/disrupted"]).await;
    simulation.until("its removal is sent", 15, sent).await;
    taint(&["karpenter.sh/disrupted", "mine"]).await;
    simulation
        .until("the mark is gone", 15, async |s| tainted(s).await == 0)
        .await;
    assert_eq!(keys(&simulation).await, ["mine"]);
    assert_eq!(api_faults.writes(&path).len(), 2, "the late one was refused");

    delay_next(&api_faults, &path);
    simulation.change_template("2").await;
    simulation.until("the mark is sent", 15, sent).await;
    taint(&["mine", "theirs"]).await;
    simulation
        .until("it is there", 15, async |s| tainted(s).await == 1)
        .await;
    assert_eq!(keys(&simulation).await, ["karpenter.sh/disrupted", "mine", "theirs"]);
    simulation.stop().await;
}

// DIS-012
#[tokio::test(start_paused = true)]
async fn conditions_that_come_while_a_reason_is_removed_survive() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    let path = format!(
        "/apis/karpenter.sh/v1/nodeclaims/{}/status",
        name(&simulation.claims().await[0])
    );
    let set = async |type_: &str| {
        let before = simulation.claims().await.remove(0);
        let mut after = before.clone();
        kerf_api::ConditionSet::new(&mut after, simulation.context.now()).set_true(type_);
        let api = Api::all(simulation.client());
        let written = patch_status(&api, &before, &after, Lock::Optimistic).await;
        written.expect("written");
    };
    delay_next(&api_faults, &path);
    set("DisruptionReason").await;
    simulation
        .until("its removal is sent", 15, async |_| {
            !api_faults.writes(&path).is_empty()
        })
        .await;
    set("Mine").await;
    simulation
        .until("it is gone", 15, async |s| {
            s.claims().await[0].condition("DisruptionReason").is_none()
        })
        .await;
    assert!(simulation.claims().await[0].condition_is_true("Mine"));
    assert_eq!(api_faults.writes(&path).len(), 2, "the late one was refused");
    simulation.stop().await;
}
