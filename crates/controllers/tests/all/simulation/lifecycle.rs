//! From a claim to a node that runs pods, or to the end of the claim.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Method;
use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_cloud::CloudError;
use kerf_runtime::metrics::catalogue::{NODECLAIMS_DISRUPTED, NODES_CREATED};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::harness::{Simulation, create, list};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, scripted_as};

/// A claim without a pool; `requirements` name its instance type.
async fn standalone(simulation: &Simulation, name: &str, class: &str, requirements: Value) -> NodeClaim {
    let spec = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class},
        "requirements": requirements,
        "expireAfter": "Never",
    });
    create(&simulation.client(), json!({"metadata": {"name": name}, "spec": spec})).await
}

fn small() -> Value {
    json!([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux"]}])
}

async fn claim(simulation: &Simulation, name: &str) -> Option<NodeClaim> {
    simulation
        .claims()
        .await
        .into_iter()
        .find(|claim| claim.metadata.name.as_deref() == Some(name))
}

/// Status, reason and message of a condition.
fn shown(claim: &NodeClaim, type_: &str) -> String {
    let condition = claim.condition(type_);
    condition.map_or_else(String::new, |c| format!("{} {} {}", c.status, c.reason(), c.message()))
}

/// How many standalone claims went for a reason, launched or not.
fn disrupted(simulation: &Simulation, reason: &str) -> f64 {
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    let of = |capacity_type| counter.get(&[reason, "", capacity_type]);
    of("") + of("on-demand") + of("spot")
}

fn taint_keys(node: &Node) -> Vec<&str> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    taints.iter().map(|taint| taint.key.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_standalone_claim_becomes_an_initialized_node() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    standalone(&simulation, "alone", "default", small()).await;
    let initialized = async |s: &Simulation| {
        claim(s, "alone")
            .await
            .is_some_and(|c| c.condition_is_true("Initialized"))
    };
    simulation.until("it is initialized", 60, initialized).await;
    let claim = claim(&simulation, "alone").await.expect("there");
    // LIF-017
    assert_eq!(
        claim.metadata.finalizers,
        Some(vec!["karpenter.sh/termination".to_owned()])
    );
    // LIF-012
    assert!(claim.condition_is_true("Ready"));
    let node = simulation.nodes().await.pop().expect("a node");
    let status = claim.status.clone().unwrap_or_default();
    // LIF-022
    assert_eq!(
        status.provider_id,
        node.spec.as_ref().and_then(|spec| spec.provider_id.clone())
    );
    assert!(!status.capacity.is_empty() || !status.allocatable.is_empty());
    // LIF-038
    assert_eq!(status.node_name, node.metadata.name);
    let labels = node.metadata.labels.clone().unwrap_or_default();
    assert_eq!(labels.get("karpenter.sh/registered").map(String::as_str), Some("true"));
    assert!(!taint_keys(&node).contains(&"karpenter.sh/unregistered"));
    // LIF-047
    assert_eq!(labels.get("karpenter.sh/initialized").map(String::as_str), Some("true"));
    let told = logs.with("initialized nodeclaim");
    assert_eq!(told.len(), 1, "{told:?}");
    let (_, allocatable) = told[0].split_once(" allocatable=").expect("what it can hold");
    assert!(
        told[0].starts_with("INFO ") && allocatable.contains("\"memory\":\""),
        "{told:?}"
    );
    // LIF-031
    assert_eq!(
        node.metadata.finalizers,
        Some(vec!["karpenter.sh/termination".to_owned()])
    );
    let owners = node.metadata.owner_references.clone().unwrap_or_default();
    assert_eq!(
        owners.iter().map(|owner| &owner.uid).collect::<Vec<_>>(),
        [claim.metadata.uid.as_ref().expect("a uid")]
    );
    // LIF-132
    assert_eq!(
        labels.get("karpenter.kwok.sh/kwoknodeclass").map(String::as_str),
        Some("default")
    );
    let zone = labels.get("topology.kubernetes.io/zone").cloned().unwrap_or_default();
    // LIF-038, OPS-121
    assert_eq!(
        simulation.context.metrics.counter(&NODES_CREATED).get(&["", &zone]),
        1.0
    );
    simulation.stop().await;
}

// LIF-021
#[tokio::test(start_paused = true)]
async fn a_launch_that_could_not_be_stored_is_not_repeated() {
    let (sandbox, api_faults) = (Simulation::start().await.crash().await, ApiFaults::new());
    let client = api_faults.client(&sandbox);
    let (simulation, script) = scripted_as(sandbox, client, |_| {}, Vec::new());
    let status = "/apis/karpenter.sh/v1/nodeclaims/alone/status";
    api_faults.on(Method::PATCH, status, CallFault::Lost);
    standalone(&simulation, "alone", "default", small()).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let tried = api_faults.writes(&format!("PATCH {status}")).len();
    assert!(tried > 3, "{tried}");
    assert_eq!(script.count(Call::Create), 1);
    api_faults.heal();
    let launched = async |s: &Simulation| claim(s, "alone").await.is_some_and(|c| c.condition_is_true("Launched"));
    simulation.until("it is launched", 65, launched).await;
    assert_eq!(script.count(Call::Create), 1);
    simulation.stop().await;
}

// LIF-028
#[tokio::test(start_paused = true)]
async fn no_pod_runs_on_a_node_whose_claim_does_not_name_its_instance() {
    let (sandbox, api_faults) = (Simulation::start().await.crash().await, ApiFaults::new());
    let client = api_faults.client(&sandbox);
    let (simulation, _) = scripted_as(sandbox, client, |_| {}, Vec::new());
    api_faults.on(
        Method::PATCH,
        "/apis/karpenter.sh/v1/nodeclaims/alone/status",
        CallFault::Lost,
    );
    standalone(&simulation, "alone", "default", small()).await;
    let joined = async |s: &Simulation| !s.nodes().await.is_empty();
    simulation.until("a node joins", 60, joined).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    let nodes = simulation.nodes().await;
    let keys = taint_keys(&nodes[0]);
    assert!(keys.contains(&"karpenter.sh/unregistered"), "{keys:?}");
    api_faults.heal();
    let registered = async |s: &Simulation| {
        claim(s, "alone")
            .await
            .is_some_and(|c| c.condition_is_true("Registered"))
    };
    simulation.until("it is registered", 65, registered).await;
    simulation.stop().await;
}

/// When a claim's launch is tried within a minute and a half, in seconds, if it fails so each time.
async fn attempts(error: impl Fn(usize) -> CloudError + Send + Sync + 'static) -> Vec<f64> {
    let (sandbox, api_faults) = (Simulation::start().await.crash().await, ApiFaults::new());
    // Without it a loop without pauses would take no time.
    let slow = CallFault::Late(Duration::from_millis(10));
    api_faults.on(Method::PATCH, "/nodeclaims/stuck/status", slow);
    let client = api_faults.client(&sandbox);
    let (simulation, script) = scripted_as(sandbox, client, |_| {}, Vec::new());
    let calls = AtomicUsize::new(0);
    script.fail(Call::Create, move || error(calls.fetch_add(1, Ordering::SeqCst)));
    standalone(&simulation, "stuck", "default", small()).await;
    tokio::time::sleep(Duration::from_secs(90)).await;
    simulation.stop().await;
    script.times(Call::Create).iter().map(|time| time.round()).collect()
}

// LIF-016
#[tokio::test(start_paused = true)]
async fn a_launch_that_fails_anew_each_time_keeps_its_pace() {
    let times = attempts(|call| CloudError::other(format!("request {call} failed"))).await;
    assert_eq!(times, [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0]);
}

// LIF-016
#[tokio::test(start_paused = true)]
async fn a_launch_waits_as_long_as_the_cloud_asks() {
    let throttled = |call| CloudError::Retryable {
        message: format!("request {call} was throttled").into(),
        after: Some(Duration::from_secs(20)),
    };
    assert_eq!(attempts(throttled).await, [0.0, 20.0, 40.0, 60.0, 80.0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_waits_for_its_startup_taints_to_go() {
    let simulation = Simulation::start().await;
    let taints = json!([{"key": "cni.example.com/not-ready", "effect": "NoExecute"}]);
    let lasting = json!([{"key": "team", "value": "a", "effect": "NoSchedule"}]);
    let template = json!({"spec": {"startupTaints": taints, "taints": lasting}});
    simulation.pool("web", json!({"template": template})).await;
    simulation
        .deployment(
            "web",
            1,
            "1",
            json!({"tolerations": [{"key": "team", "operator": "Exists"}]}),
        )
        .await;
    let waits = async |s: &Simulation| {
        s.claims().await.first().is_some_and(|claim| {
            shown(claim, "Initialized")
                == "Unknown StartupTaintsExist StartupTaint \"cni.example.com/not-ready:NoExecute\" still exists"
        })
    };
    // LIF-040
    simulation.until("it waits for the taint", 60, waits).await;
    tokio::time::sleep(Duration::from_secs(30 * 60)).await;
    // LIF-048, LIF-049
    assert_eq!((simulation.claims().await.len(), simulation.running().await), (1, 0));
    let node = simulation.nodes().await.pop().expect("a node");
    // LIF-032
    assert_eq!(taint_keys(&node), ["team", "cni.example.com/not-ready"]);
    let name = node.metadata.name.clone().unwrap_or_default();
    simulation
        .patch::<Node>(&name, json!({"spec": {"taints": lasting}}))
        .await;
    simulation.until_running(1, 60).await;
    // LIF-033
    let node = simulation.nodes().await.pop().expect("a node");
    assert_eq!(taint_keys(&node), ["team"]);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn claims_that_cannot_be_served_go_at_once() {
    let simulation = Simulation::start().await;
    standalone(&simulation, "lost", "missing", small()).await;
    // LIF-025, LIF-231, OPS-110
    simulation.until_claims(0, 30).await;
    // LIF-023
    simulation
        .until("the event", 30, async |s| {
            !s.events("InsufficientCapacityError").await.is_empty()
        })
        .await;
    let event = simulation
        .events("InsufficientCapacityError")
        .await
        .pop()
        .expect("an event");
    let message = event.message.unwrap_or_default();
    // OPS-203, OPS-260
    assert!(
        message.starts_with("NodeClaim lost event: insufficient capacity, "),
        "{message}"
    );
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(disrupted(&simulation, "insufficient_capacity"), 1.0);

    create::<KwokNodeClass>(
        &simulation.client(),
        json!({"metadata": {"name": "broken"}, "spec": {}}),
    )
    .await;
    let api: kube::Api<KwokNodeClass> = kube::Api::all(simulation.client());
    let ready = json!([{"type": "Ready", "status": "False", "reason": "No", "message": "no", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let patch = kube::api::Patch::Merge(json!({"status": {"conditions": ready}}));
    let unready = api
        .patch_status("broken", &kube::api::PatchParams::default(), &patch)
        .await
        .expect("patched");
    standalone(&simulation, "lost", "broken", small()).await;
    // LIF-024, LIF-231, OPS-110
    simulation.until_claims(0, 30).await;
    assert_eq!(disrupted(&simulation, "nodeclass_not_ready"), 1.0);
    assert!(simulation.nodes().await.is_empty());
    // API-226: the class is not made ready again.
    tokio::time::sleep(Duration::from_secs(600)).await;
    let class = api.get("broken").await.expect("it is there");
    assert_eq!(class.metadata.resource_version, unready.metadata.resource_version);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_launch_is_given_up_after_five_minutes() {
    let simulation = Simulation::start().await;
    standalone(&simulation, "stuck", "default", json!([])).await;
    tokio::time::sleep(Duration::from_secs(290)).await;
    let stuck = claim(&simulation, "stuck").await.expect("still there");
    // LIF-026
    assert!(
        shown(&stuck, "Launched").starts_with("Unknown LaunchFailed "),
        "{}",
        shown(&stuck, "Launched")
    );
    // LIF-051, OPS-110
    simulation.until_claims(0, 20).await;
    assert_eq!(disrupted(&simulation, "launch_timeout"), 1.0);
    // LIF-054
    assert_eq!(disrupted(&simulation, "registration_timeout"), 0.0);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_registers_takes_its_claim_along() {
    let simulation = Simulation::start().await;
    simulation.slow_class("1h").await;
    standalone(&simulation, "late", "slow", small()).await;
    tokio::time::sleep(Duration::from_secs(14 * 60 + 50)).await;
    let late = claim(&simulation, "late").await.expect("still there");
    // LIF-029, LIF-230
    assert_eq!(
        shown(&late, "Registered"),
        "Unknown NodeNotFound Node not registered with cluster"
    );
    assert!(late.condition_is_true("Launched"));
    assert!(
        late.condition("Initialized")
            .is_some_and(kerf_api::Condition::is_unknown)
    );
    // LIF-052
    simulation.until_claims(0, 20).await;
    assert_eq!(disrupted(&simulation, "registration_timeout"), 1.0);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(simulation.nodes().await.is_empty(), "its machine never comes");
    simulation.stop().await;
}

const IN_DOUBT: &str = "False MultipleNodesFound Invariant violated, matched multiple nodes";

/// Registered of the claim `twice`.
async fn registered(simulation: &Simulation) -> String {
    let claim = claim(simulation, "twice").await;
    claim.map_or_else(String::new, |claim| shown(&claim, "Registered"))
}

/// The claim `twice`, whose instance joins as the Nodes `one` and `two`.
async fn with_two_nodes() -> Simulation {
    let simulation = Simulation::start().await;
    simulation.slow_class("1h").await;
    standalone(&simulation, "twice", "slow", small()).await;
    let launched = async |s: &Simulation| claim(s, "twice").await.is_some_and(|c| c.condition_is_true("Launched"));
    simulation.until("it is launched", 30, launched).await;
    let id = claim(&simulation, "twice")
        .await
        .and_then(|claim| claim.status?.provider_id)
        .expect("an id");
    // Both Nodes are created while no controller runs.
    let sandbox = simulation.crash().await;
    for name in ["one", "two"] {
        let taints = json!([{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]);
        let node = json!({"metadata": {"name": name}, "spec": {"providerID": id, "taints": taints}});
        create::<Node>(&sandbox.client(), node).await;
    }
    let simulation = Simulation::join(sandbox, |_| {});
    // LIF-029
    simulation
        .until("it is in doubt", 30, async |s| registered(s).await == IN_DOUBT)
        .await;
    simulation
}

#[tokio::test(start_paused = true)]
async fn two_nodes_for_one_claim_end_the_claim_and_are_left_alone() {
    let simulation = with_two_nodes().await;
    simulation.until_claims(0, 17 * 60).await;
    // LIF-241
    let nodes = simulation.nodes().await;
    assert_eq!(
        nodes
            .iter()
            .filter(|node| node.metadata.deletion_timestamp.is_none())
            .count(),
        2
    );
    simulation.stop().await;
}

// LIF-029
#[tokio::test(start_paused = true)]
async fn a_claim_in_doubt_stays_so_when_one_of_its_nodes_goes() {
    let simulation = with_two_nodes().await;
    simulation.delete::<Node>("two").await;
    tokio::time::sleep(Duration::from_secs(10 * 60)).await;
    assert_eq!(registered(&simulation).await, IN_DOUBT);
    let left = simulation.nodes().await;
    assert_eq!(left.len(), 1);
    assert!(taint_keys(&left[0]).contains(&"karpenter.sh/unregistered"));
    simulation.until_claims(0, 7 * 60).await;
    assert_eq!(disrupted(&simulation, "registration_timeout"), 1.0);
    simulation.stop().await;
}

// LIF-125, LIF-224
#[tokio::test(start_paused = true)]
async fn claims_of_one_age_expire_one_after_the_other() {
    let (sandbox, api_faults) = (Simulation::start().await.crash().await, ApiFaults::new());
    let client = api_faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    let names: Vec<String> = (0..5).map(|number| format!("old-{number}")).collect();
    for name in &names {
        let spec = json!({
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": small(),
            "expireAfter": "10m",
        });
        create::<NodeClaim>(&simulation.client(), json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    simulation.until_claims(0, 11 * 60).await;
    let first = |name: &String| {
        let deletions = api_faults.writes(&format!("DELETE /apis/karpenter.sh/v1/nodeclaims/{name}"));
        deletions.first().expect("it was deleted").at
    };
    let mut times: Vec<Instant> = names.iter().map(first).collect();
    times.sort();
    for pair in times.windows(2) {
        let pause = pair[1] - pair[0];
        assert!((1000..1500).contains(&pause.as_millis()), "{times:?}");
    }
    assert_eq!(disrupted(&simulation, "expired"), 5.0);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_expires_at_its_own_age() {
    let simulation = Simulation::with_pool(json!({"template": {"spec": {"expireAfter": "10m"}}})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation.until_running(1, 60).await;
    let first = simulation.claims().await.pop().expect("a claim");
    tokio::time::sleep(Duration::from_secs(8 * 60)).await;
    assert_eq!(
        simulation.claims().await.pop().and_then(|claim| claim.metadata.uid),
        first.metadata.uid
    );
    let replaced = async |s: &Simulation| {
        let claims = s.claims().await;
        s.running().await == 1
            && claims.len() == 1
            && claims.iter().all(|claim| claim.metadata.uid != first.metadata.uid)
    };
    // LIF-125
    simulation.until("another node runs the pod", 5 * 60, replaced).await;
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    let labels = first.metadata.labels.clone().unwrap_or_default();
    let capacity_type = labels.get("karpenter.sh/capacity-type").cloned().unwrap_or_default();
    assert_eq!(counter.get(&["expired", "web", &capacity_type]), 1.0);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_nodes_do_not_register_says_so() {
    let simulation = Simulation::start().await;
    simulation.slow_pool("3h").await;
    simulation.deployment("web", 1, "1", json!({})).await;
    let health = async |s: &Simulation| {
        let pool = list::<NodePool>(&s.client()).await.pop().expect("the pool");
        let condition = pool.condition("NodeRegistrationHealthy").cloned();
        condition
            .map(|c| format!("{} {} {}", c.status, c.reason(), c.message()))
            .unwrap_or_default()
    };
    tokio::time::sleep(Duration::from_secs(20 * 60)).await;
    // LIF-058: one failure is not enough.
    assert!(
        health(&simulation).await.starts_with("Unknown"),
        "{}",
        health(&simulation).await
    );
    // LIF-061
    simulation
        .until("two failures are", 20 * 60, async |s| {
            health(s).await == "False RegistrationFailed Failed to register node"
        })
        .await;
    simulation.stop().await;
}
