//! Pools with a fixed number of nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue::NODECLAIMS_CREATED;
use kerf_runtime::{Metrics, Options};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::harness::Simulation;
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, scripted_on};

fn with_gate(options: &mut Options) {
    options.feature_gates.static_capacity = true;
}

/// A cluster with a static pool `web`; `spec` is merged over its spec.
pub(crate) async fn with_pool(replicas: u32, spec: Value) -> Simulation {
    let simulation = Simulation::start_with(with_gate).await;
    static_pool(&simulation, "web", replicas, spec).await;
    simulation
}

/// The requirement without which KWOK launches nothing.
pub(crate) fn typed() -> Value {
    json!({"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]})
}

async fn static_pool(simulation: &Simulation, name: &str, replicas: u32, mut spec: Value) {
    spec["replicas"] = json!(replicas);
    // KWK-038
    if spec["template"]["spec"]["requirements"].is_null() {
        spec["template"]["spec"]["requirements"] = json!([typed()]);
    }
    simulation.pool(name, spec).await;
}

pub(crate) async fn scale(simulation: &Simulation, replicas: u32) {
    let patch = json!({"spec": {"replicas": replicas}});
    simulation.patch::<NodePool>("web", patch).await;
}

fn pool_of(claim: &NodeClaim) -> &str {
    let labels = claim.metadata.labels.as_ref();
    labels
        .and_then(|labels| labels.get("karpenter.sh/nodepool"))
        .map_or("", String::as_str)
}

/// The claims of the pool.
pub(crate) async fn claims(simulation: &Simulation) -> Vec<NodeClaim> {
    let mut claims = simulation.claims().await;
    claims.retain(|claim| pool_of(claim) == "web");
    claims
}

pub(crate) fn names(claims: &[NodeClaim]) -> BTreeSet<String> {
    claims.iter().filter_map(|claim| claim.metadata.name.clone()).collect()
}

/// Whether the pool has exactly so many claims, all of them initialized and none on its way out.
pub(crate) async fn has(simulation: &Simulation, count: usize) -> bool {
    let claims = claims(simulation).await;
    let stays =
        |claim: &NodeClaim| claim.condition_is_true("Initialized") && claim.metadata.deletion_timestamp.is_none();
    claims.len() == count && claims.iter().all(stays)
}

pub(crate) fn created(metrics: &Metrics, reason: &str, relaxed: &str) -> f64 {
    metrics.counter(&NODECLAIMS_CREATED).get(&[reason, "web", relaxed])
}

pub(crate) fn provisioned(simulation: &Simulation) -> f64 {
    created(&simulation.context.metrics, "provisioned", "false")
}

// LIF-234, SCH-396
#[tokio::test(start_paused = true)]
async fn a_pool_has_as_many_nodes_as_it_asks_for() {
    let simulation = with_pool(0, json!({})).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    assert!(simulation.claims().await.is_empty());
    // LIF-167: through the scale subresource, as `kubectl scale` does it.
    let pools: Api<NodePool> = Api::all(simulation.client());
    let ten = Patch::Merge(json!({"spec": {"replicas": 10}}));
    pools
        .patch_scale("web", &PatchParams::default(), &ten)
        .await
        .expect("scaled");
    simulation.until("there are ten", 60, async |s| has(s, 10).await).await;
    scale(&simulation, 15).await;
    simulation
        .until("there are fifteen", 60, async |s| has(s, 15).await)
        .await;
    // LIF-174: looking again and again makes no more.
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(has(&simulation, 15).await);
    // SCH-402
    assert_eq!(provisioned(&simulation), 15.0);
    let status = pools.get_scale("web").await.expect("a scale").status;
    assert_eq!(status.map(|status| status.replicas), Some(15));
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_are_the_template_and_nothing_else() {
    let simulation = with_pool(
        1,
        json!({"template": {
            "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
            "spec": {
                "requirements": [
                    {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Gt", "values": ["3"]},
                    {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["9"]},
                    {"key": "topology.kubernetes.io/zone", "operator": "Exists", "minValues": 1},
                    typed(),
                ],
                "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
                "startupTaints": [{"key": "setup", "effect": "NoSchedule"}],
                "expireAfter": "24h",
                "terminationGracePeriod": "5m",
            },
        }}),
    )
    .await;
    simulation
        .until("it is registered", 60, async |s| {
            claims(s)
                .await
                .iter()
                .any(|claim| claim.condition_is_true("Registered"))
        })
        .await;
    let claim = claims(&simulation).await.remove(0);
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels["team"], "a");
    let annotations = claim.metadata.annotations.clone().unwrap_or_default();
    assert_eq!(annotations["note"], "b");
    // SCH-402
    assert!(!annotations.contains_key("karpenter.sh/nodeclaim-min-values-relaxed"));
    assert!(annotations.contains_key("karpenter.sh/nodepool-hash"));
    assert_eq!(claim.spec.resources, None);
    let written: Vec<String> = claim
        .spec
        .requirements
        .iter()
        .map(|one| {
            let least = one.min_values.map_or_else(String::new, |least| format!(" min {least}"));
            format!("{} {:?} {}{least}", one.key, one.operator, one.values.join(","))
        })
        .collect();
    // API-105: every label is a requirement. API-106, LIF-172: neither instance types nor capacity types were chosen, and bounds are inclusive.
    assert_eq!(
        written,
        [
            "karpenter.kwok.sh/instance-cpu Gte 4",
            "karpenter.kwok.sh/instance-cpu Lte 8",
            "karpenter.kwok.sh/kwoknodeclass In default",
            "karpenter.sh/nodepool In web",
            "kubernetes.io/arch In amd64",
            "node.kubernetes.io/instance-type In c-4x-amd64-linux",
            "team In a",
            "topology.kubernetes.io/zone Exists  min 1",
        ]
    );
    let spec = serde_json::to_value(&claim.spec).expect("JSON");
    assert_eq!(
        spec["taints"],
        json!([{"key": "team", "value": "a", "effect": "NoSchedule"}])
    );
    assert_eq!(spec["startupTaints"], json!([{"key": "setup", "effect": "NoSchedule"}]));
    assert_eq!(
        (&spec["expireAfter"], &spec["terminationGracePeriod"]),
        (&json!("24h"), &json!("5m"))
    );
    simulation.stop().await;
}

// LIF-170, LIF-234, SCH-399
#[tokio::test(start_paused = true)]
async fn the_node_limit_holds() {
    let simulation = with_pool(10, json!({"limits": {"nodes": "5"}})).await;
    simulation.until("there are five", 60, async |s| has(s, 5).await).await;
    for _ in 0..60 {
        assert_eq!(claims(&simulation).await.len(), 5);
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    let raised = json!({"spec": {"limits": {"nodes": "7"}}});
    simulation.patch::<NodePool>("web", raised).await;
    simulation.until("there are seven", 60, async |s| has(s, 7).await).await;
    // A node that is going still takes up room.
    let victim = names(&claims(&simulation).await).pop_first().expect("a claim");
    simulation.delete::<NodeClaim>(&victim).await;
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    while !has(&simulation, 7).await || names(&claims(&simulation).await).contains(&victim) {
        assert!(claims(&simulation).await.len() <= 7);
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    simulation.stop().await;
}

// LIF-181, LIF-234, SCH-404, SCH-405
#[tokio::test(start_paused = true)]
async fn zero_replicas_end_all_nodes() {
    let simulation = with_pool(4, json!({"disruption": {"budgets": [{"nodes": "0"}]}})).await;
    simulation.until("there are four", 60, async |s| has(s, 4).await).await;
    scale(&simulation, 0).await;
    simulation
        .until("none is left", 60, async |s| {
            s.claims().await.is_empty() && s.nodes().await.is_empty()
        })
        .await;
    // LIF-246: a scale-down is no disruption.
    assert!(
        !simulation
            .context
            .metrics
            .encode()
            .contains("karpenter_nodeclaims_disrupted_total{")
    );
    simulation.stop().await;
}

// LIF-235
#[tokio::test(start_paused = true)]
async fn pods_of_nodes_that_go_move_to_those_that_stay() {
    let simulation = with_pool(4, json!({})).await;
    simulation.until("there are four", 60, async |s| has(s, 4).await).await;
    let selector = json!({"nodeSelector": {"karpenter.sh/nodepool": "web"}});
    simulation.deployment("app", 4, "100m", selector).await;
    simulation.until_running(4, 60).await;
    scale(&simulation, 2).await;
    simulation
        .until("two are left and the pods run", 180, async |s| {
            has(s, 2).await && s.running().await == 4
        })
        .await;
    simulation.stop().await;
}

// LIF-234
#[tokio::test(start_paused = true)]
async fn a_deleted_pool_takes_its_nodes_along() {
    let simulation = with_pool(3, json!({})).await;
    simulation.until("there are three", 60, async |s| has(s, 3).await).await;
    let before = names(&claims(&simulation).await);
    simulation.delete::<NodePool>("web").await;
    let end = tokio::time::Instant::now() + Duration::from_secs(120);
    loop {
        let now = names(&claims(&simulation).await);
        assert!(now.is_subset(&before), "no new ones");
        if now.is_empty() {
            break;
        }
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    simulation.stop().await;
}

// LIF-173, SCH-396
#[tokio::test(start_paused = true)]
async fn a_pool_grows_once_it_is_ready_and_makes_good_what_is_lost() {
    let simulation = Simulation::start_with(with_gate).await;
    let class = json!({"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "late"}});
    static_pool(&simulation, "web", 2, json!({"template": {"spec": class}})).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(simulation.claims().await.is_empty());
    let late = json!({"metadata": {"name": "late"}, "spec": {}});
    crate::simulation::harness::create::<KwokNodeClass>(&simulation.client(), late).await;
    simulation.until("there are two", 20, async |s| has(s, 2).await).await;
    let lost = names(&claims(&simulation).await).pop_first().expect("a claim");
    simulation.delete::<NodeClaim>(&lost).await;
    // The next one does not wait for the end of the last.
    simulation
        .until("another is made", 5, async |s| {
            names(&claims(s).await).iter().filter(|name| **name != lost).count() == 2
        })
        .await;
    simulation
        .until("there are two again", 60, async |s| has(s, 2).await)
        .await;
    simulation.stop().await;
}

// LIF-182, SCH-406
#[tokio::test(start_paused = true)]
async fn what_static_nodes_cannot_hold_goes_to_dynamic_pools() {
    let simulation = with_pool(
        2,
        json!({"template": {"spec": {"requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-4x-amd64-linux"]},
        ]}}}),
    )
    .await;
    simulation.until("there are two", 60, async |s| has(s, 2).await).await;
    simulation.pool("burst", json!({})).await;
    simulation.deployment("few", 2, "3", json!({})).await;
    simulation.until_running(2, 60).await;
    assert_eq!(simulation.claims().await.len(), 2, "there was room");
    simulation.deployment("many", 3, "3", json!({})).await;
    simulation.until_running(5, 120).await;
    assert!(has(&simulation, 2).await, "the static pool does not follow the pods");
    assert!(simulation.claims().await.iter().any(|claim| pool_of(claim) == "burst"));
    simulation.stop().await;
}

// LIF-168, SCH-407
#[tokio::test(start_paused = true)]
async fn empty_static_nodes_are_kept() {
    let simulation = with_pool(2, json!({"disruption": {"consolidateAfter": "0s"}})).await;
    simulation.until("there are two", 60, async |s| has(s, 2).await).await;
    let before = names(&claims(&simulation).await);
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(names(&claims(&simulation).await), before);
    assert!(has(&simulation, 2).await);
    // LIF-144
    assert!(
        claims(&simulation)
            .await
            .iter()
            .all(|claim| claim.condition("Consolidatable").is_none())
    );
    simulation.stop().await;
}

// LIF-168
#[tokio::test(start_paused = true)]
async fn static_nodes_expire_and_are_replaced() {
    let simulation = with_pool(2, json!({"template": {"spec": {"expireAfter": "10m"}}})).await;
    simulation.until("there are two", 60, async |s| has(s, 2).await).await;
    let before = names(&claims(&simulation).await);
    tokio::time::sleep(Duration::from_secs(700)).await;
    assert!(has(&simulation, 2).await, "{}", simulation.picture().await);
    assert!(names(&claims(&simulation).await).is_disjoint(&before));
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_happens_with_the_gate_off() {
    let simulation = Simulation::start().await;
    static_pool(&simulation, "web", 2, json!({})).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(simulation.claims().await.is_empty());
    simulation.stop().await;
}

/// A pool for whose claims there is no capacity: its type is nowhere near.
fn impossible() -> Value {
    json!({"template": {"spec": {"requirements": [
        typed(),
        {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["nowhere"]},
    ]}}})
}

#[tokio::test(start_paused = true)]
async fn a_pool_without_capacity_neither_spins_nor_stops_others() {
    let simulation = Simulation::start_with(with_gate).await;
    static_pool(&simulation, "web", 3, impossible()).await;
    simulation.pool("burst", json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    simulation.deployment("app", 2, "1", json!({})).await;
    simulation.until_running(2, 30).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(provisioned(&simulation) > 30.0, "{}", provisioned(&simulation));
    // Three a round, a round a minute at the end.
    assert!(provisioned(&simulation) < 3.0 * 70.0, "{}", provisioned(&simulation));
    assert!(claims(&simulation).await.len() <= 3);
    simulation.stop().await;
}

// LIF-170, LIF-175, LIF-246, SCH-399
#[tokio::test(start_paused = true)]
async fn what_is_done_is_logged() {
    let logs = Logs::listen();
    let simulation = with_pool(3, json!({"limits": {"nodes": "2"}})).await;
    simulation.until("there are two", 60, async |s| has(s, 2).await).await;
    // OPS-261
    let grown = logs.with("provisioning nodeclaims to satisfy replica count");
    assert_eq!(
        grown[0],
        "INFO provisioning nodeclaims to satisfy replica count NodePool=web current=0 desired=3 provision-count=2"
    );
    simulation
        .until("the limit is told of", 70, async |_| {
            !logs.with("INFO nodepool node limit reached").is_empty()
        })
        .await;
    scale(&simulation, 1).await;
    simulation.until("there is one", 60, async |s| has(s, 1).await).await;
    let shrunk = logs.with("deprovisioning nodeclaims to satisfy replica count");
    assert_eq!(
        shrunk,
        [
            "INFO deprovisioning nodeclaims to satisfy replica count NodePool=web current=2 desired=1 deprovision-count=1"
        ]
    );
    assert_eq!(logs.with("DEBUG deleting nodeclaim").len(), 1);
    simulation.stop().await;
}

// LIF-169, LIF-187, SCH-397, OPS-060
#[tokio::test(start_paused = true)]
async fn nothing_is_made_before_the_cluster_was_known_once() {
    let begun = Simulation::start().await;
    static_pool(&begun, "web", 1, json!({})).await;
    begun
        .until("it is ready", 10, async |s| {
            let pools = crate::simulation::harness::list::<NodePool>(&s.client()).await;
            pools.iter().all(|pool| pool.condition_is_true("Ready"))
        })
        .await;
    let sandbox = begun.crash().await;
    let stuck = json!({"metadata": {"name": "stuck"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    crate::simulation::harness::create::<NodeClaim>(&sandbox.client(), stuck).await;
    let (simulation, script) = scripted_on(sandbox, with_gate);
    script.hang(Call::Create);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(claims(&simulation).await.is_empty());
    script.heal(Call::Create);
    simulation.until("there is one", 60, async |s| has(s, 1).await).await;
    simulation.stop().await;
}
