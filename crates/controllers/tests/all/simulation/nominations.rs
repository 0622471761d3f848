//! Pods are nominated to the nodes they are planned onto.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::Pod;
use kerf_api::KwokNodeClass;
use kerf_sandbox::{ActorOptions, Sandbox};
use kerf_units::nominated_pods::NominatedPodsMax;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::logs::Logs;

/// Lets pods be nominated.
fn nominate(options: &mut kerf_runtime::Options) {
    options.nominated_pods_max = NominatedPodsMax::from(500);
}

/// By pod, the node it is nominated to.
async fn nominated(simulation: &Simulation) -> BTreeMap<String, String> {
    let pods = simulation.pods().await.into_iter();
    let nominated = pods.filter_map(|pod| {
        let node = pod.status.as_ref()?.nominated_node_name.clone()?;
        Some((name(&pod), node))
    });
    nominated.collect()
}

async fn patch_status(simulation: &Simulation, pod: &str, status: Value) {
    let api: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let patch = Patch::Merge(json!({"status": status}));
    let patched = api.patch_status(pod, &PatchParams::default(), &patch).await;
    patched.expect("a status");
}

/// A cluster with a pool `web`, whose scheduler takes its time, so that pods can be nominated before they are bound.
async fn with_slow_scheduler() -> Simulation {
    let actors = ActorOptions {
        scheduling_attempt_takes: Duration::from_millis(100),
        ..ActorOptions::default()
    };
    let sandbox = Sandbox::builder().seed(7).actors(actors).build().await;
    let sandbox = sandbox.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    let simulation = Simulation::join(sandbox, nominate);
    simulation.pool("web", json!({})).await;
    simulation
}

/// Pods whose scheduler is missing: they stay unbound.
fn unscheduled() -> Value {
    json!({"schedulerName": "nobody", "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}})
}

/// Says of all pods that no node fits them, as a scheduler does.
async fn refuse_all(simulation: &Simulation) {
    for pod in simulation.pods().await {
        let unschedulable = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node fits"}]});
        patch_status(simulation, &name(&pod), unschedulable).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_are_nominated_once_their_node_takes_pods_and_until_it_goes() {
    let (simulation, faults) = with_api_faults(Simulation::with_pool(json!({})).await, nominate).await;
    simulation.delay_registration("30s").await;
    simulation.deployment("web", 2, "1", unscheduled()).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    refuse_all(&simulation).await;
    simulation.until_claims(2, 60).await;
    assert!(nominated(&simulation).await.is_empty(), "no node yet");
    simulation.until_initialized(120).await;
    let both = async |s: &Simulation| nominated(s).await.len() == 2;
    simulation.until("both are nominated", 10, both).await;
    let told = nominated(&simulation).await;
    let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    assert!(told.values().all(|node| nodes.contains(node)), "{told:?} {nodes:?}");
    // They still wait for capacity: nothing more is launched or written while their places are kept.
    faults.forget();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(simulation.claims().await.len(), 2);
    assert_eq!(
        faults
            .writes("/status")
            .iter()
            .filter(|write| write.call.contains("/pods/"))
            .count(),
        0
    );

    // kube-scheduler found no room and ended the nomination: it is not written again for this placement.
    let (pod, node) = told.iter().next().expect("one");
    patch_status(&simulation, pod, json!({"nominatedNodeName": null})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(nominated(&simulation).await.get(pod), None);
    // Preemption chose another node for it: this stays, and the pod waits for no capacity.
    patch_status(&simulation, pod, json!({"nominatedNodeName": "elsewhere"})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(
        nominated(&simulation).await.get(pod).map(String::as_str),
        Some("elsewhere")
    );
    patch_status(&simulation, pod, json!({"nominatedNodeName": null})).await;
    tokio::time::sleep(Duration::from_secs(30)).await;

    // The node of the other goes: it is planned anew, and nominated to the new node.
    let (other, gone) = told.iter().next_back().expect("two");
    assert_ne!(node, gone);
    let claims = simulation.claims().await.into_iter();
    let claim = claims.filter(|claim| claim.status.as_ref().and_then(|status| status.node_name.as_ref()) == Some(gone));
    for claim in claim {
        simulation.delete::<kerf_api::NodeClaim>(&name(&claim)).await;
    }
    let moved = async |s: &Simulation| nominated(s).await.get(other).is_some_and(|node| node != gone);
    simulation.until("it is nominated to another node", 180, moved).await;
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bound_pods_are_not_written_and_the_option_turns_it_off() {
    for on in [true, false] {
        let simulation = with_slow_scheduler().await;
        let (simulation, faults) = with_api_faults(simulation, |options| {
            if on {
                nominate(options);
            }
        })
        .await;
        simulation.deployment("web", 10, "1", json!({})).await;
        simulation.until_running(10, 120).await;
        let writes = || {
            faults
                .writes("/status")
                .iter()
                .filter(|write| write.call.contains("/pods/"))
                .count()
        };
        assert_eq!(writes(), if on { 10 } else { 0 });
        assert!(
            nominated(&simulation).await.is_empty(),
            "bound pods are nominated no longer"
        );
        simulation.scale("web", 0).await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(writes(), if on { 10 } else { 0 });
        simulation.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_larger_plans_are_not_nominated() {
    for max in [10, 9] {
        let max_only = |options: &mut kerf_runtime::Options| options.nominated_pods_max = NominatedPodsMax::from(max);
        let (simulation, faults) = with_api_faults(with_slow_scheduler().await, max_only).await;
        simulation.deployment("web", 10, "1", json!({})).await;
        simulation.until_running(10, 120).await;
        let writes = faults.writes("/status");
        let writes = writes.iter().filter(|write| write.call.contains("/pods/")).count();
        // In the end at most nine wait; those were planned together with the tenth.
        assert_eq!(writes, if max == 10 { 10 } else { 0 });
        simulation.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_turns_nominations_off_with_one_warning() {
    let (simulation, faults) = with_api_faults(with_slow_scheduler().await, nominate).await;
    let logs = Logs::listen();
    faults.rule(|request| {
        let path = request.uri().path();
        let hit = *request.method() == Method::PATCH && path.contains("/pods/") && path.ends_with("/status");
        if hit {
            CallFault::Refused(StatusCode::FORBIDDEN)
        } else {
            CallFault::None
        }
    });
    for deployment in ["first", "second"] {
        simulation.deployment(deployment, 10, "1", json!({})).await;
        let running = simulation.running().await;
        simulation.until_running(running + 10, 120).await;
    }
    let warnings = logs.with("patch on pods/status");
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    simulation.stop().await;
}
