//! Nodes that boot, flap, are tainted by their network plugin or register again keep the pods they were launched for.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Taint};
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::FaultPlan;
use kerf_testkit::objects::pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::objects::create_unschedulable;
use crate::simulation::harness::{Simulation, create, list_in};

const CILIUM: &str = "node.cilium.io/agent-not-ready";

/// A cluster whose nodes take a while to become Ready, with the node class `default`.
async fn sandbox(binds: bool) -> Sandbox {
    let builder = Sandbox::builder()
        .seed(7)
        .kubelet_delays(Duration::from_secs(10), Duration::from_secs(1));
    let builder = if binds { builder } else { builder.without_scheduler() };
    let sandbox = builder.build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    sandbox
}

/// Changes the Node's taints. Repeats the write after a conflict.
async fn taint(simulation: &Simulation, node: &str, change: impl Fn(&mut Vec<Taint>)) {
    let api: Api<Node> = Api::all(simulation.client());
    loop {
        let mut node = api.get(node).await.expect("there");
        let name = node.metadata.name.clone().unwrap_or_default();
        change(node.spec.get_or_insert_default().taints.get_or_insert_default());
        match api.replace(&name, &PostParams::default(), &node).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            answer => {
                answer.expect("replaced");
                return;
            }
        }
    }
}

fn cilium() -> Taint {
    Taint {
        key: CILIUM.to_owned(),
        value: Some("true".to_owned()),
        effect: "NoExecute".to_owned(),
        time_added: None,
    }
}

async fn node_name(simulation: &Simulation) -> String {
    let node = simulation.nodes().await.into_iter().next().expect("a node");
    node.metadata.name.unwrap_or_default()
}

/// Watches for a while; the claims seen.
async fn claims_within(simulation: &Simulation, seconds: u64) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    for _ in 0..seconds * 2 {
        let claims = simulation.claims().await;
        seen.extend(claims.into_iter().filter_map(|claim| claim.metadata.name));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    seen
}

async fn warnings(simulation: &Simulation) -> Vec<String> {
    let all: Vec<Event> = list_in(&simulation.client(), "default").await;
    let of_pool = |event: &Event| {
        event.reason.as_deref() == Some("UndeclaredStartupTaint")
            && event.involved_object.kind.as_deref() == Some("NodePool")
    };
    all.into_iter()
        .filter(of_pool)
        .filter_map(|event| event.message)
        .collect()
}

/// A pod whose node carries an undeclared taint, from before it is Ready until 150 seconds later.
async fn late_network(simulation: Simulation) {
    simulation.pool("gpu", json!({})).await;
    simulation.deployment("train", 1, "1", json!({})).await;
    simulation
        .until("a node", 120, async |s| !s.nodes().await.is_empty())
        .await;
    let node = node_name(&simulation).await;
    taint(&simulation, &node, |taints| taints.push(cilium())).await;
    let seen = claims_within(&simulation, 150).await;
    assert_eq!(seen.len(), 1, "{seen:?}\n{}", simulation.picture().await);
    assert_eq!(simulation.running().await, 0);
    taint(&simulation, &node, |taints| taints.retain(|taint| taint.key != CILIUM)).await;
    simulation.until_running(1, 120).await;
    assert_eq!(simulation.claims().await.len(), 1);
    let warnings = warnings(&simulation).await;
    assert_eq!(
        warnings,
        [format!(
            "Nodes start with the taint {CILIUM}=true:NoExecute, which goes by itself but is not declared; add it to \
             spec.template.spec.startupTaints"
        )]
    );
    simulation.stop().await;
}

/// Most answers are lost, calls are refused besides, and no watch delivers anything in time.
#[tokio::test(start_paused = true)]
async fn a_claim_whose_creation_was_not_answered_is_not_written_twice() {
    for round in 0..8 {
        let sandbox = sandbox(true).await;
        let (client, faults) = sandbox.client_with_faults(&format!("controller {round}"));
        let simulation = Simulation::join_as(sandbox, client, |_| {});
        simulation.pool("web", json!({})).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        faults.set(FaultPlan {
            answer_lost: 0.6,
            too_many: 0.3,
            watch_lag: Duration::from_secs(20),
            ..FaultPlan::default()
        });
        simulation.deployment("web", 2, "1", json!({})).await;
        let seen = claims_within(&simulation, 60).await;
        assert_eq!(seen.len(), 1, "round {round}: {seen:?}");
        faults.set(FaultPlan::default());
        simulation.until_running(2, 300).await;
        assert_eq!(simulation.claims().await.len(), 1);
        simulation.stop().await;
    }
}

/// Two pools of small machines, a pod for either and a smaller one that needs the less preferred pool.
async fn two_pools(simulation: &Simulation, needed: &str) {
    for name in ["a", "b"] {
        let weight = if name == needed { 1 } else { 10 };
        let spec = json!({"weight": weight, "template": {
            "metadata": {"labels": {"team": name}},
            "spec": {"requirements": [
                {"key": "karpenter.kwok.sh/instance-cpu", "operator": "In", "values": ["2"]}]},
        }});
        simulation.pool(name, spec).await;
    }
    simulation.deployment("any", 1, "1600m", json!({})).await;
    let bound = json!({"nodeSelector": {"team": needed}});
    simulation.deployment("bound", 1, "1500m", bound).await;
}

/// Whether a pod whose name begins like this runs on a machine of a pool.
async fn runs_in(simulation: &Simulation, prefix: &str, pool: &str) -> bool {
    let pods = simulation.pods().await;
    let mut pods = pods.iter().filter(|pod| {
        let name = pod.metadata.name.as_deref();
        name.is_some_and(|name| name.starts_with(prefix))
    });
    let machine = format!("kwok-{pool}-");
    pods.any(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node.is_some_and(|node| node.starts_with(&machine))
    })
}

/// The larger pod may go to either pool and is tried first; on the machine of the smaller one it would leave that without a place.
#[tokio::test(start_paused = true)]
async fn pods_do_not_trade_the_places_they_were_given() {
    for first in ["a", "b"] {
        let simulation = Simulation::join(sandbox(true).await, |_| {});
        two_pools(&simulation, first).await;
        let seen = claims_within(&simulation, 60).await;
        // The scheduler may itself put the larger pod on the machine of the smaller one, which then needs another.
        let expected = 2 + usize::from(runs_in(&simulation, "any-", first).await);
        assert_eq!(seen.len(), expected, "{seen:?}\n{}", simulation.picture().await);
        assert_eq!(simulation.running().await, 2);
        simulation.stop().await;
    }
}

/// The same where nothing can be launched for a while: a pod that lost its place then would need a machine of its own later.
#[tokio::test(start_paused = true)]
async fn nor_do_they_while_nothing_can_be_launched() {
    for first in ["a", "b"] {
        let simulation = Simulation::join(sandbox(true).await, |_| {});
        simulation.delay_registration("60s").await;
        two_pools(&simulation, first).await;
        let two = async |s: &Simulation| s.claims().await.len() == 2;
        simulation.until("both are asked for", 10, two).await;
        for limit in [json!({"cpu": "0"}), json!(null)] {
            for name in ["a", "b"] {
                simulation
                    .patch::<NodePool>(name, json!({"spec": {"limits": limit}}))
                    .await;
            }
            assert_eq!(claims_within(&simulation, 20).await.len(), 2);
        }
        simulation.until_running(2, 120).await;
        let expected = 2 + usize::from(runs_in(&simulation, "any-", first).await);
        assert_eq!(simulation.claims().await.len(), expected);
        simulation.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_network_plugin_that_is_late_costs_no_second_node() {
    late_network(Simulation::join(sandbox(true).await, |_| {})).await;
}

#[tokio::test(start_paused = true)]
async fn neither_does_it_when_watches_break_and_lag() {
    for seed in 0..6_u64 {
        let sandbox = sandbox(true).await;
        let (client, faults) = sandbox.client_with_faults(&format!("controller-{seed}"));
        faults.set(FaultPlan {
            latency: Some((Duration::from_millis(5), Duration::from_millis(2500))),
            watch_cut: 0.5,
            watch_gone: 0.3,
            watch_life: Duration::from_secs(20),
            ..FaultPlan::default()
        });
        late_network(Simulation::join_as(sandbox, client, |_| {})).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_taint_the_options_name_is_known_too() {
    let simulation = Simulation::join(sandbox(true).await, |options| {
        options.startup_taints = vec!["corp.example/".to_owned()];
    });
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("a node", 120, async |s| !s.nodes().await.is_empty())
        .await;
    let node = node_name(&simulation).await;
    let own = |key: &str| Taint {
        key: key.to_owned(),
        ..cilium()
    };
    taint(&simulation, &node, |taints| taints.push(own("corp.example/agent"))).await;
    assert_eq!(claims_within(&simulation, 60).await.len(), 1);
    assert!(
        warnings(&simulation)
            .await
            .iter()
            .any(|warning| warning.contains("corp.example/agent"))
    );
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_declared_taint_is_no_news() {
    let simulation = Simulation::join(sandbox(true).await, |_| {});
    let declared =
        json!({"template": {"spec": {"startupTaints": [{"key": CILIUM, "value": "true", "effect": "NoExecute"}]}}});
    simulation.pool("web", declared).await;
    simulation.deployment("web", 1, "1", json!({})).await;
    // SCH-462
    assert_eq!(claims_within(&simulation, 90).await.len(), 1);
    assert!(warnings(&simulation).await.is_empty());
    let node = node_name(&simulation).await;
    taint(&simulation, &node, |taints| taints.retain(|taint| taint.key != CILIUM)).await;
    simulation.until_running(1, 60).await;
    simulation.stop().await;
}

/// A machine that was initialised while its pod was not bound.
async fn initialised() -> (Simulation, String) {
    let simulation = Simulation::join(sandbox(false).await, |_| {});
    simulation.pool("gpu", json!({})).await;
    create_unschedulable(&simulation.client(), "default", pod("train", "1")).await;
    simulation
        .until("the claim is initialised", 120, async |s| {
            let claims = s.claims().await;
            !claims.is_empty() && claims.iter().all(|claim| claim.condition_is_true("Initialized"))
        })
        .await;
    let node = node_name(&simulation).await;
    (simulation, node)
}

#[tokio::test(start_paused = true)]
async fn a_kubelet_that_restarts_before_its_pod_came_costs_no_second_node() {
    let (simulation, node) = initialised().await;
    for _ in 0..3 {
        simulation
            .sandbox
            .set_kubelet(&node, Some("not-ready"))
            .await
            .expect("set");
        assert_eq!(claims_within(&simulation, 45).await.len(), 1);
        simulation.sandbox.set_kubelet(&node, None).await.expect("set");
        assert_eq!(claims_within(&simulation, 15).await.len(), 1);
    }
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_amounts_for_a_while_costs_no_second_node() {
    let (simulation, node) = initialised().await;
    let api: Api<Node> = Api::all(simulation.client());
    let says = async |cpu: &str| {
        let patch = json!({"status": {"allocatable": {"cpu": cpu}, "capacity": {"cpu": cpu}}});
        let params = PatchParams::default();
        api.patch_status(&node, &params, &Patch::Merge(patch))
            .await
            .expect("patched");
    };
    says("0").await;
    assert_eq!(claims_within(&simulation, 60).await.len(), 1);
    says("8").await;
    assert_eq!(claims_within(&simulation, 30).await.len(), 1);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stays_broken_is_given_up() {
    let (simulation, node) = initialised().await;
    simulation
        .sandbox
        .set_kubelet(&node, Some("not-ready"))
        .await
        .expect("set");
    assert_eq!(claims_within(&simulation, 240).await.len(), 1);
    simulation.until_claims(2, 120).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_registers_again_costs_no_second_node_and_can_be_used() {
    let (simulation, name) = initialised().await;
    let api: Api<Node> = Api::all(simulation.client());
    let old = api.get(&name).await.expect("there");
    let fresh: Node = serde_json::from_value(json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"},
                     "labels": kubelet_labels(&old)},
        "spec": {"providerID": old.spec.as_ref().and_then(|spec| spec.provider_id.clone()),
                 "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
    }))
    .expect("a node");
    let held = json!({"metadata": {"finalizers": null}});
    api.patch(&name, &PatchParams::default(), &Patch::Merge(held))
        .await
        .expect("patched");
    api.delete(&name, &DeleteParams::default()).await.expect("deleted");
    api.create(&PostParams::default(), &fresh).await.expect("created");
    assert_eq!(
        claims_within(&simulation, 60).await.len(),
        1,
        "{}",
        simulation.picture().await
    );
    let back = api.get(&name).await.expect("there");
    assert_ne!(back.metadata.uid, old.metadata.uid);
    let labels = back.metadata.labels.unwrap_or_default();
    for label in ["karpenter.sh/registered", "karpenter.sh/initialized"] {
        assert_eq!(labels.get(label).map(String::as_str), Some("true"), "{label}");
    }
    let taints = back.spec.and_then(|spec| spec.taints).unwrap_or_default();
    assert!(taints.is_empty(), "{taints:?}");
    assert!(
        back.metadata
            .finalizers
            .is_some_and(|all| all.contains(&"karpenter.sh/termination".to_owned()))
    );
    simulation.stop().await;
}

/// The labels a kubelet puts on its Node: none of the controller's.
fn kubelet_labels(node: &Node) -> Value {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let kept = labels
        .into_iter()
        .filter(|(key, _)| !key.starts_with("karpenter.sh/") || key == "karpenter.sh/nodepool");
    kept.map(|(key, value)| (key, Value::String(value)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_boots_slowly_keeps_its_pods() {
    let sandbox = Sandbox::builder()
        .seed(7)
        .kubelet_delays(Duration::from_secs(400), Duration::from_secs(1))
        .build()
        .await
        .expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "5m"}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    let simulation = Simulation::join(sandbox, |_| {});
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 3, "1", json!({})).await;
    let mut seen = BTreeSet::new();
    for _ in 0..15 {
        seen.extend(claims_within(&simulation, 60).await);
        if simulation.running().await == 3 {
            break;
        }
    }
    assert_eq!((seen.len(), simulation.running().await), (1, 3), "{seen:?}");
    // The controller starts anew while a machine boots.
    simulation.deployment("more", 1, "100", json!({})).await;
    simulation.until_claims(2, 60).await;
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    let launched: Vec<NodeClaim> = simulation.claims().await;
    assert_eq!(claims_within(&simulation, 600).await.len(), launched.len());
    simulation.stop().await;
}
