//! Nodes that are not empty are deleted when their pods fit elsewhere, or replaced by cheaper ones.

use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim};
use kerf_controllers::SearchLimits;
use kerf_disruption::{Balance, Class, Command, candidates};
use kerf_model::budget::DisruptionReason;
use kerf_runtime::metrics::catalogue::{
    CONSOLIDATION_MOVES, CONSOLIDATION_SCORE, DISRUPTION_CONSOLIDATION_TIMEOUTS, DISRUPTION_DECISIONS,
    DISRUPTION_FAILED_VALIDATIONS, NODECLAIMS_CREATED,
};
use serde_json::{Value, json};

use crate::simulation::disruption_loop::{bind, protected};
use crate::simulation::emptiness::{apart, tainted};
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

const ON_DEMAND: &str = "on-demand";

/// A pool that consolidates as soon as it may, with nodes of one capacity type.
pub(crate) async fn pool(simulation: &Simulation, capacity: &str, disruption: Value) {
    let spec = json!({
        "disruption": disruption,
        "template": {"spec": {"requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity]},
            {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        ]}},
    });
    simulation.pool("web", spec).await;
}

/// `count` nodes of two cores, each of them with a pod of one core that wants a node of its own, and one of half a core besides, for which
/// there is no second place.
pub(crate) async fn filled(count: u32, capacity: &str, disruption: Value) -> Simulation {
    let simulation = Simulation::start().await;
    pool(&simulation, capacity, json!({"consolidateAfter": "Never"})).await;
    fill(&simulation, count).await;
    let patch = json!({"spec": {"disruption": disruption}});
    simulation.patch::<kerf_api::NodePool>("web", patch).await;
    simulation
}

/// The same, when no node is nominated any more for a pod that waited for it: all nodes are candidates from the first pass on.
pub(crate) async fn filled_long_ago(count: u32, capacity: &str, disruption: Value) -> Simulation {
    let simulation = filled(count, capacity, json!({"consolidateAfter": "Never"})).await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    let patch = json!({"spec": {"disruption": disruption}});
    simulation.patch::<kerf_api::NodePool>("web", patch).await;
    simulation
}

async fn fill(simulation: &Simulation, count: u32) {
    simulation.deployment("big", count, "1", apart("big")).await;
    let all = count as usize;
    simulation.until_running(all, 120).await;
    simulation.deployment("little", count, "500m", json!({})).await;
    simulation
        .until("the little pods run", 120, async |s| s.running().await == 2 * all)
        .await;
    assert_eq!(simulation.claims().await.len(), all, "{}", simulation.picture().await);
    simulation
        .until("the nodes are initialised", 60, async |s| {
            s.claims()
                .await
                .iter()
                .all(|claim| claim.condition_is_true("Initialized"))
        })
        .await;
}

fn label<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    let labels = claim.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

fn decisions(simulation: &Simulation, decision: &str, kind: &str) -> f64 {
    let counter = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    counter.get(&[decision, "underutilized", kind])
}

// DIS-163, DIS-176
#[test]
fn a_search_may_take_a_minute_for_sets_and_three_for_single_nodes() {
    let limits = SearchLimits::default();
    assert_eq!((limits.multi.as_secs(), limits.single.as_secs()), (60, 180));
}

// DIS-180
#[tokio::test(start_paused = true)]
async fn that_no_search_ran_out_of_time_is_told_from_the_start() {
    let simulation = Simulation::start().await;
    let metrics = simulation.context.metrics.encode();
    for kind in ["multi", "single"] {
        let series =
            format!("karpenter_voluntary_disruption_consolidation_timeouts_total{{consolidation_type=\"{kind}\"}} 0\n");
        assert!(metrics.contains(&series), "{metrics}");
    }
    simulation.stop().await;
}

// DIS-007, DIS-257, DIS-268
#[tokio::test(start_paused = true)]
async fn nodes_whose_pods_fit_together_go_at_once() {
    let simulation = filled(
        4,
        "spot",
        json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]}),
    )
    .await;
    let timeouts = simulation
        .context
        .metrics
        .counter(&DISRUPTION_CONSOLIDATION_TIMEOUTS)
        .clone();
    simulation.scale("big", 0).await;
    simulation
        .until("two are marked at once", 120, async |s| tainted(s).await == 2)
        .await;
    simulation
        .until("two are left", 120, async |s| {
            s.nodes().await.len() == 2 && s.running().await == 4
        })
        .await;
    assert_eq!(
        (decisions(&simulation, "delete", "multi"), timeouts.get(&["multi"])),
        (1.0, 0.0)
    );
    let mut told = simulation.messages("DisruptionTerminating").await;
    told.sort();
    told.dedup();
    assert_eq!(
        told,
        ["Disrupting Node: Underutilized", "Disrupting NodeClaim: Underutilized"]
    );
    // DIS-142: a deletion is not announced.
    assert_eq!(simulation.messages("ConsolidationCandidate").await, [""; 0]);
    simulation.stop().await;
}

// DIS-142, DIS-262, DIS-271, DIS-272, DIS-295, OPS-193
#[tokio::test(start_paused = true)]
async fn a_node_becomes_cheaper_and_its_pods_move() {
    let simulation = filled(1, ON_DEMAND, json!({"consolidateAfter": "10s"})).await;
    let before = simulation.claims().await.remove(0);
    simulation.scale("big", 0).await;
    simulation
        .until("another node runs the pod", 180, async |s| {
            let claims = s.claims().await;
            claims.len() == 1 && claims[0].metadata.uid != before.metadata.uid && s.running().await == 1
        })
        .await;
    let after = simulation.claims().await.remove(0);
    let kind = "node.kubernetes.io/instance-type";
    assert_eq!(
        (label(&before, kind), label(&after, kind)),
        ("c-2x-amd64-linux", "c-1x-amd64-linux")
    );
    assert_eq!(decisions(&simulation, "replace", "single"), 1.0);
    let created = simulation.context.metrics.counter(&NODECLAIMS_CREATED);
    assert_eq!(created.get(&["underutilized", "web", "false"]), 1.0);
    let name = before
        .status
        .as_ref()
        .and_then(|status| status.node_name.clone())
        .expect("a node");
    let announced = simulation.messages("ConsolidationCandidate").await;
    assert_eq!(announced.len(), 2, "{announced:?}");
    let start = format!("Consolidation candidate: replace: [{name}] -> [1 replacement] (savings: $0.0");
    assert!(announced.iter().all(|text| text.starts_with(&start)), "{announced:?}");
    assert_eq!(
        simulation.messages("DisruptionLaunching").await,
        ["Launching NodeClaim: Underutilized"]
    );
    assert_eq!(
        simulation.messages("DisruptionWaitingReadiness").await,
        ["Waiting on readiness to continue disruption"]
    );
    // Nothing is cheaper any more: it stays.
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(simulation.claims().await[0].metadata.uid, after.metadata.uid);
    simulation.stop().await;
}

// DIS-116, DIS-118, DIS-120, DIS-289, DIS-290, OPS-192
#[tokio::test(start_paused = true)]
async fn why_a_node_stays_is_told_once_per_object() {
    let disruption = json!({"consolidateAfter": "10s", "consolidationPolicy": "WhenEmpty"});
    let simulation = filled(1, "spot", disruption).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let not_empty = "NodePool \"web\" has consolidation policy WhenEmpty, but node is not empty";
    assert_eq!(simulation.messages("Unconsolidatable").await, [not_empty; 2]);
    // Another cause is not reported for a quarter of an hour.
    let never = json!({"spec": {"disruption": {"consolidateAfter": "Never"}}});
    simulation.patch::<kerf_api::NodePool>("web", never).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(simulation.messages("Unconsolidatable").await, [not_empty; 2]);
    simulation.stop().await;
}

// DIS-143, OPS-192
#[tokio::test(start_paused = true)]
async fn a_spot_node_stays_one_while_the_gate_is_off() {
    let simulation = filled(1, "spot", json!({"consolidateAfter": "10s"})).await;
    let before = simulation.claims().await.remove(0);
    simulation.scale("big", 0).await;
    tokio::time::sleep(Duration::from_secs(17 * 60)).await;
    assert_eq!(simulation.claims().await[0].metadata.uid, before.metadata.uid);
    let told = simulation.messages("Unconsolidatable").await;
    let off = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node";
    assert!(told.iter().any(|text| text == off), "{told:?}");
    simulation.stop().await;
}

// DIS-179, DIS-181, DIS-189, DIS-190, DIS-210, DIS-295, OPS-160, OPS-194
#[tokio::test(start_paused = true)]
async fn a_protected_pod_that_comes_during_the_wait_keeps_the_node() {
    let simulation = filled(1, ON_DEMAND, json!({"consolidateAfter": "10s"})).await;
    let before = simulation.claims().await.remove(0);
    let name = before
        .status
        .as_ref()
        .and_then(|status| status.node_name.clone())
        .expect("a node");
    simulation.scale("big", 0).await;
    simulation
        .until("the command waits", 60, async |s| {
            !s.messages("ConsolidationCandidate").await.is_empty()
        })
        .await;
    bind(&simulation, "default", "late", &name, protected()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        (
            simulation.claims().await[0].metadata.uid.clone(),
            tainted(&simulation).await
        ),
        (before.metadata.uid, 0)
    );
    let rejected = simulation.messages("ConsolidationRejected").await;
    assert_eq!(rejected.len(), 2, "{rejected:?}");
    let text = format!("Consolidation rejected: replace: [{name}] -> [1 replacement], reason: churn (savings: $0.0");
    assert!(rejected.iter().all(|said| said.starts_with(&text)), "{rejected:?}");
    let failed = simulation.context.metrics.counter(&DISRUPTION_FAILED_VALIDATIONS);
    assert_eq!((failed.get(&["single"]), failed.get(&["multi"])), (1.0, 0.0));
    // It counts as a move, of whichever policy: that was before the wait.
    let moves = simulation.context.metrics.counter(&CONSOLIDATION_MOVES);
    assert_eq!(moves.get(&["approved", "web", "WhenEmptyOrUnderutilized"]), 1.0);
    simulation.stop().await;
}

// DIS-181, DIS-189, and the deviation at DIS-181
#[tokio::test(start_paused = true)]
async fn the_other_nodes_of_a_command_go_when_a_pod_comes_to_one() {
    let all_at_once = json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]});
    let simulation = filled(4, ON_DEMAND, all_at_once).await;
    simulation.scale("big", 0).await;
    simulation
        .until("a command for several nodes waits", 60, async |s| {
            s.messages("ConsolidationCandidate").await.len() > 4
        })
        .await;
    let waiting = simulation.messages("ConsolidationCandidate").await;
    let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    let chosen: Vec<&String> = nodes
        .iter()
        .filter(|node| waiting.iter().any(|text| text.contains(*node)))
        .collect();
    bind(&simulation, "default", "late", chosen[0], protected()).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let left: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    assert!(left.contains(chosen[0]), "{left:?}");
    let failed = simulation.context.metrics.counter(&DISRUPTION_FAILED_VALIDATIONS);
    assert_eq!(failed.get(&["multi"]), 1.0);
    assert_eq!(
        decisions(&simulation, "delete", "multi") + decisions(&simulation, "replace", "multi"),
        1.0
    );
    assert_eq!(simulation.messages("ConsolidationRejected").await, [""; 0]);
    simulation.stop().await;
}

// DIS-179
#[tokio::test(start_paused = true)]
async fn after_a_command_that_no_longer_stands_the_next_node_waits_for_the_next_pass() {
    let simulation = Simulation::start().await;
    pool(&simulation, ON_DEMAND, json!({"consolidateAfter": "Never"})).await;
    // The little pods want a node each as well: no node can go without another.
    simulation.deployment("big", 2, "1", apart("big")).await;
    simulation.until_running(2, 120).await;
    simulation.deployment("little", 2, "500m", apart("little")).await;
    simulation.until_running(4, 120).await;
    simulation.scale("big", 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(simulation.claims().await.len(), 2, "{}", simulation.picture().await);
    let at_once = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    simulation.patch::<kerf_api::NodePool>("web", at_once).await;
    simulation
        .until("a command waits", 30, async |s| {
            s.messages("ConsolidationCandidate").await.len() == 2
        })
        .await;
    let announced = simulation.messages("ConsolidationCandidate").await.remove(0);
    let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    let (first, second) = match announced.contains(&nodes[0]) {
        true => (&nodes[0], &nodes[1]),
        false => (&nodes[1], &nodes[0]),
    };
    bind(&simulation, "default", "late", first, protected()).await;
    simulation
        .until("it is given up", 20, async |s| {
            !s.messages("ConsolidationRejected").await.is_empty()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let told = simulation.messages("ConsolidationCandidate").await;
    assert!(told.iter().all(|text| !text.contains(second)), "{told:?}");
    let moves = simulation.context.metrics.counter(&CONSOLIDATION_MOVES);
    assert_eq!(moves.get(&["approved", "web", "WhenEmptyOrUnderutilized"]), 1.0);
    simulation
        .until("the other has its turn", 10, async |s| {
            let told = s.messages("ConsolidationCandidate").await;
            told.iter().any(|text| text.contains(second))
        })
        .await;
    simulation.stop().await;
}

/// The instance types a claim may have, sorted.
fn types_of(claim: &NodeClaim) -> Vec<String> {
    let requirements = json!(claim.spec.requirements);
    let mut all = requirements.as_array().into_iter().flatten();
    let types = all.find(|requirement| requirement["key"] == "node.kubernetes.io/instance-type");
    let mut types: Vec<String> = serde_json::from_value(types.expect("types")["values"].clone()).expect("names");
    types.sort();
    types
}

// DIS-187
#[tokio::test(start_paused = true)]
async fn what_proceeds_is_what_was_decided_before_the_wait() {
    let simulation = Simulation::start().await;
    pool(&simulation, ON_DEMAND, json!({"consolidateAfter": "Never"})).await;
    simulation.deployment("big", 1, "2200m", json!({})).await;
    simulation.until_running(1, 60).await;
    simulation.deployment("little", 2, "700m", json!({})).await;
    simulation.until_running(3, 60).await;
    simulation.scale("big", 0).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let old = simulation.claims().await.remove(0);
    let at_once = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    simulation.patch::<kerf_api::NodePool>("web", at_once).await;
    simulation
        .until("the command waits", 30, async |s| {
            !s.messages("ConsolidationCandidate").await.is_empty()
        })
        .await;
    // For one pod a single core would do by now.
    simulation.scale("little", 1).await;
    simulation.until_claims(2, 20).await;
    let claims = simulation.claims().await;
    let new = claims.iter().find(|claim| claim.metadata.uid != old.metadata.uid);
    assert_eq!(
        types_of(new.expect("the replacement")),
        ["c-2x-amd64-linux", "m-2x-amd64-linux", "s-2x-amd64-linux"]
    );
    assert_eq!(simulation.messages("ConsolidationRejected").await, [""; 0]);
    let alive = simulation.pods().await;
    let alive = alive.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    assert_eq!(alive.count(), 1);
    simulation.stop().await;
}

// DIS-210, DIS-211, DIS-213
#[tokio::test(start_paused = true)]
async fn a_balanced_pool_weighs_its_moves() {
    let logs = Logs::listen();
    let disruption = json!({"consolidateAfter": "10s", "consolidationPolicy": "Balanced"});
    let simulation = filled(1, ON_DEMAND, disruption).await;
    simulation.scale("big", 0).await;
    simulation
        .until("it is replaced", 180, async |s| {
            decisions(s, "replace", "single") == 1.0
        })
        .await;
    let moves = simulation.context.metrics.counter(&CONSOLIDATION_MOVES);
    assert_eq!(moves.get(&["approved", "web", "Balanced"]), 1.0);
    let scores = simulation.context.metrics.histogram(&CONSOLIDATION_SCORE);
    assert_eq!(scores.count(&["approved", "web", "Balanced"]), 1);
    let told = simulation.messages("ConsolidationApproved").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(
        told[0].starts_with("score ") && told[0].contains(">= threshold 0.50 (k: 2, savings "),
        "{told:?}"
    );
    // DIS-214
    let logged = logs.with("DEBUG consolidation score nodepool=web ");
    assert_eq!(logged.len(), 1, "{logged:?}");
    let fields: Vec<(&str, &str)> = logged[0].split(' ').filter_map(|field| field.split_once('=')).collect();
    let keys: Vec<&str> = fields.iter().map(|(key, _)| *key).collect();
    let expected = [
        "nodepool",
        "score",
        "savings_fraction",
        "disruption_fraction",
        "savings",
        "disruption_cost",
        "nodepool_total_cost",
        "nodepool_total_disruption_cost",
        "threshold",
        "k",
        "approved",
        "decision",
        "candidates",
    ];
    assert_eq!(keys, expected);
    let value = |key: &str| {
        fields
            .iter()
            .find(|(known, _)| *known == key)
            .map_or("", |(_, value)| value)
    };
    assert_eq!(
        [
            "disruption_cost",
            "threshold",
            "k",
            "approved",
            "decision",
            "candidates"
        ]
        .map(value),
        ["2.0", "0.5", "2", "true", "replace", "1"]
    );
    simulation.stop().await;
}

// LIF-203
#[tokio::test(start_paused = true)]
async fn a_claim_that_changes_keeps_the_weight_of_its_pods() {
    let simulation = filled(
        2,
        ON_DEMAND,
        json!({"consolidateAfter": "Never", "consolidationPolicy": "Balanced"}),
    )
    .await;
    let kept = simulation.nodes().await.remove(0).metadata.name.expect("a name");
    let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    simulation
        .patch::<k8s_openapi::api::core::v1::Node>(&kept, protect)
        .await;
    // Until no pod is on its way to them any more.
    tokio::time::sleep(Duration::from_secs(30)).await;
    // What the pool weighs in all, as a candidate of it sees it: two nodes with two pods each.
    let weight = |s: &Simulation| {
        let (snapshot, now) = (s.context.cluster.snapshot(s.context.now()), s.context.now());
        let free = candidates(&snapshot, now, Class::Graceful, &|_| false).free;
        assert_eq!(free.len(), 1, "the other is none");
        let command = Command {
            reason: DisruptionReason::Underutilized,
            candidates: free.clone(),
            replacements: Vec::new(),
            plan: None,
        };
        let judgement = Balance::new(&snapshot, &free).judge(&command);
        let score = judgement.by_pool[0].score.as_ref().expect("the pool is balanced");
        score.totals.disruption.as_pods()
    };
    assert_eq!(weight(&simulation), 6.0);
    for claim in simulation.claims().await {
        let name = claim.metadata.name.expect("a name");
        let note = json!({"metadata": {"annotations": {"example.com/note": "x"}}});
        simulation.patch::<NodeClaim>(&name, note).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(weight(&simulation), 6.0);
    simulation.stop().await;
}
