//! The disruption loop: when it runs, in which order, and the effect of an error in one part on the others.

use std::time::Duration;

use http::{Method, StatusCode};
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue::{
    DISRUPTION_DECISIONS, DISRUPTION_ELIGIBLE_NODES, DISRUPTION_EVALUATION_DURATION,
};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::objects::{create_in, mark_unschedulable};
use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::consolidation::filled;
use crate::simulation::emptiness::{is_tainted, tainted, until_tainted, with_nodes};
use crate::simulation::harness::{Simulation, create, list, name};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, scripted_on};
use crate::simulation::static_capacity;

/// How often a method was evaluated.
pub(crate) fn evaluations(simulation: &Simulation, reason: &str, kind: &str) -> u64 {
    let histogram = simulation.context.metrics.histogram(&DISRUPTION_EVALUATION_DURATION);
    histogram.count(&[reason, kind])
}

pub(crate) fn eligible(simulation: &Simulation, reason: &str) -> f64 {
    simulation
        .context
        .metrics
        .gauge(&DISRUPTION_ELIGIBLE_NODES)
        .get(&[reason])
}

/// Creates a pod that is bound already.
pub(crate) async fn bind(simulation: &Simulation, namespace: &str, pod: &str, node: &str, annotations: Value) {
    let pod = json!({
        "metadata": {"name": pod, "annotations": annotations},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
    });
    create_in::<Pod>(&simulation.client(), namespace, pod).await;
}

pub(crate) fn protected() -> Value {
    json!({"karpenter.sh/do-not-disrupt": "true"})
}

// DIS-006, OPS-155
#[tokio::test(start_paused = true)]
async fn the_loop_looks_every_ten_seconds_and_at_once_after_it_did_something() {
    let simulation = with_nodes(3, json!({"consolidateAfter": "Never"})).await;
    simulation.scale("web", 0).await;
    simulation
        .until("the pods are gone", 60, async |s| s.pods().await.is_empty())
        .await;
    let begun = evaluations(&simulation, "empty", "empty");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let passes = evaluations(&simulation, "empty", "empty") - begun;
    assert!((5..=7).contains(&passes), "{passes} passes in a minute");

    let counts = |s: &Simulation| {
        (
            evaluations(s, "drifted", ""),
            evaluations(s, "underutilized", "multi"),
            evaluations(s, "underutilized", "single"),
        )
    };
    let before = counts(&simulation);
    simulation.change_template("2").await;
    simulation
        .until("one is chosen", 15, async |s| tainted(s).await > 0)
        .await;
    // One command per pass; with the pause between them this would take half a minute.
    simulation
        .until("all are chosen", 2, async |s| tainted(s).await == 3)
        .await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let after = counts(&simulation);
    let (drift, multi, single) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
    // Static and dynamic drift count alike. Three passes ended with drift; consolidation was asked in the others.
    assert_eq!((drift / 2 - multi, multi), (3, single), "{before:?} {after:?}");
    simulation.stop().await;
}

// DIS-002
#[tokio::test(start_paused = true)]
async fn while_one_method_waits_no_other_decides() {
    let simulation = with_nodes(2, json!({"consolidateAfter": "0s"})).await;
    simulation.scale("web", 1).await;
    simulation
        .until("the empty node is chosen", 30, async |s| eligible(s, "empty") == 1.0)
        .await;
    let chosen = Instant::now();
    simulation.change_template("2").await;
    simulation
        .until("both have drifted", 5, async |s| {
            s.claims().await.iter().all(|claim| claim.condition_is_true("Drifted"))
        })
        .await;
    simulation
        .until("something goes", 30, async |s| tainted(s).await > 0)
        .await;
    // Drift alone would start within ten seconds; it had to wait for the other command's validation.
    let waited = chosen.elapsed().as_secs_f64();
    assert!((14.0..=16.0).contains(&waited), "{waited}");
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    assert_eq!(decisions.get(&["delete", "empty", "empty"]), 1.0);
    simulation
        .until("then the other", 5, async |s| decisions_of(s, "drifted") == 1.0)
        .await;
    simulation.stop().await;
}

pub(crate) fn decisions_of(simulation: &Simulation, reason: &str) -> f64 {
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    ["delete", "replace"]
        .iter()
        .map(|decision| decisions.get(&[decision, reason, ""]))
        .sum()
}

// DIS-017
#[tokio::test(start_paused = true)]
async fn the_next_method_sees_what_came_while_the_last_one_waited() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let node = name(&simulation.nodes().await[0]);
    simulation.scale("web", 0).await;
    simulation
        .until("the empty node is chosen", 30, async |s| eligible(s, "empty") == 1.0)
        .await;
    let drifts = evaluations(&simulation, "drifted", "");
    simulation.change_template("2").await;
    bind(&simulation, "default", "late", &node, protected()).await;
    simulation
        .until("drift has its turn", 20, async |s| {
            evaluations(s, "drifted", "") > drifts
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(simulation.claims().await[0].condition_is_true("Drifted"));
    assert_eq!(
        (tainted(&simulation).await, decisions_of(&simulation, "drifted")),
        (0, 0.0)
    );
    simulation.stop().await;
}

// DIS-034
#[tokio::test(start_paused = true)]
async fn every_pod_bound_to_a_node_is_asked() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let node = name(&simulation.nodes().await[0]);
    // Nobody scheduled it, and it is of another namespace than the pod the node was made for.
    bind(&simulation, "kube-system", "pinned", &node, protected()).await;
    simulation.scale("web", 0).await;
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!((simulation.nodes().await.len(), tainted(&simulation).await), (1, 0));
    let told = simulation.messages("DisruptionBlocked").await;
    let text = "Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=kube-system/pinned)";
    assert!(told.iter().any(|said| said == text), "{told:?}");
    simulation.stop().await;
}

// DIS-154
#[tokio::test(start_paused = true)]
async fn a_node_a_pending_pod_is_to_run_on_is_not_empty() {
    let sandbox = kerf_sandbox::Sandbox::builder()
        .seed(7)
        .without_scheduler()
        .build()
        .await;
    let simulation = Simulation::join(sandbox.expect("a sandbox"), |_| {});
    create::<KwokNodeClass>(
        &simulation.client(),
        json!({"metadata": {"name": "default"}, "spec": {}}),
    )
    .await;
    simulation
        .pool("web", json!({"disruption": {"consolidateAfter": "0s"}}))
        .await;
    simulation.deployment("web", 1, "1", json!({})).await;
    simulation
        .until("the pod is there", 5, async |s| s.pods().await.len() == 1)
        .await;
    mark_unschedulable(&simulation.client(), "default", &name(&simulation.pods().await[0])).await;
    simulation
        .until("its node is there", 60, async |s| {
            let claims = s.claims().await;
            claims.iter().any(|claim| claim.condition_is_true("Initialized"))
        })
        .await;
    // Nobody binds the pod: the node stays empty, and promised.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!((simulation.nodes().await.len(), tainted(&simulation).await), (1, 0));
    simulation.scale("web", 0).await;
    simulation.until_nodes(0, 90).await;
    simulation.stop().await;
}

// DIS-008, OPS-060, OPS-061
#[tokio::test(start_paused = true)]
async fn nothing_is_done_before_the_cluster_is_known() {
    let logs = Logs::listen();
    let simulation = with_nodes(1, json!({"consolidateAfter": "Never"})).await;
    let nonsense = json!([{"nodes": "1", "schedule": "x x x x x", "duration": "1h"}]);
    simulation
        .patch::<NodePool>("web", json!({"spec": {"disruption": {"budgets": nonsense}}}))
        .await;
    let sandbox = simulation.crash().await;
    let stuck = json!({"metadata": {"name": "stuck"}, "spec": {
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}, "requirements": [],
    }});
    create::<NodeClaim>(&sandbox.client(), stuck).await;
    let node: Node = crate::simulation::harness::list(&sandbox.client()).await.remove(0);
    let taints = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    let nodes: Api<Node> = Api::all(sandbox.client());
    nodes
        .patch(&name(&node), &PatchParams::default(), &Patch::Merge(taints))
        .await
        .expect("tainted");
    drop(logs);
    let logs = Logs::listen();
    let (simulation, script) = scripted_on(sandbox, |_| {});
    script.hang(Call::Create);
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(
        (tainted(&simulation).await, evaluations(&simulation, "empty", "empty")),
        (1, 0)
    );
    // The loop runs every second, and reports invalid budgets all the same.
    let looked = logs.with("DEBUG waiting on cluster sync").len();
    assert!((25..=35).contains(&looked), "{looked}");
    let faults = logs.with("ERROR detected disruption budget errors");
    assert!(faults.len() >= looked - 3, "{} {looked}", faults.len());
    assert!(faults[0].contains("web"), "{faults:?}");
    // Nobody waits for ever for one claim (LIF-184).
    until_tainted(&simulation, 0).await;
    simulation.stop().await;
}

// DIS-009
#[tokio::test(start_paused = true)]
async fn a_replacement_that_launches_slowly_does_not_stop_the_next() {
    let simulation = with_nodes(2, json!({"consolidateAfter": "Never"})).await;
    let (simulation, script) = scripted_on(simulation.crash().await, |_| {});
    tokio::time::sleep(Duration::from_secs(5)).await;
    script.hang(Call::Create);
    simulation.change_template("2").await;
    until_tainted(&simulation, 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    // Each has one replacement, and its pods wait for that one.
    assert_eq!(simulation.claims().await.len(), 4);
    assert_eq!(simulation.running().await, 2);
    simulation.stop().await;
}

// DIS-013
#[tokio::test(start_paused = true)]
async fn marks_that_cannot_be_removed_are_tried_again_and_again() {
    for (fault, result) in [
        (CallFault::Refused(StatusCode::CONFLICT), "requeue"),
        (CallFault::Lost, "error"),
    ] {
        let logs = Logs::listen();
        let simulation = with_nodes(2, json!({"consolidateAfter": "Never"})).await;
        let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
        let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
        api_faults.rule(move |request| {
            let hit = *request.method() == Method::PATCH && request.uri().path().starts_with("/api/v1/nodes/");
            if hit { fault } else { CallFault::None }
        });
        let taints = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
        for node in &nodes {
            simulation.patch::<Node>(node, taints.clone()).await;
        }
        tokio::time::sleep(Duration::from_secs(30)).await;
        let of = |node: &String| api_faults.writes(&format!("PATCH /api/v1/nodes/{node}"));
        let (first, second) = (of(&nodes[0]), of(&nodes[1]));
        // In rounds of four attempts, all nodes at once.
        assert!(first.len() >= 8, "{first:?}");
        assert_eq!(first[0].at, second[0].at);
        let pauses: Vec<u128> = first
            .windows(2)
            .map(|pair| (pair[1].at - pair[0].at).as_millis())
            .collect();
        for (pause, nominal) in pauses.iter().zip([10, 50, 250]) {
            assert!(
                (nominal * 9 / 10 - 1..=nominal * 11 / 10 + 1).contains(pause),
                "{pauses:?}"
            );
        }
        assert_eq!(tainted(&simulation).await, 2);
        let failed = format!("controller_runtime_reconcile_total{{controller=\"disruption\",result=\"{result}\"}}");
        let metrics = simulation.context.metrics.encode();
        assert!(metrics.contains(&failed), "{metrics}");
        // A conflict is nothing to make noise about.
        let loud = logs.with("ERROR Reconciler error");
        assert_eq!(loud.is_empty(), result == "requeue", "{loud:?}");
        api_faults.heal();
        simulation
            .until("they are removed", 15, async |s| tainted(s).await == 0)
            .await;
        simulation.stop().await;
    }
}

// DIS-015, DIS-021, DIS-094
#[tokio::test(start_paused = true)]
async fn the_error_of_a_method_ends_the_pass_and_those_that_starve_are_named() {
    let logs = Logs::listen();
    let simulation = with_nodes(2, json!({"consolidateAfter": "0s"})).await;
    let patch = json!({"spec": {"disruption": {"budgets": [{"nodes": "0", "reasons": ["Empty"]}]}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation.scale("web", 1).await;
    let class = json!({"metadata": {"finalizers": null}});
    simulation.patch::<KwokNodeClass>("default", class).await;
    simulation.delete::<KwokNodeClass>("default").await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    simulation.change_template("2").await;
    // Without a pool that is ready drift cannot say where pods would go.
    simulation
        .until("drift fails", 60, async |_| {
            !logs
                .with("ERROR Reconciler error error=no dynamic nodepools found")
                .is_empty()
        })
        .await;
    let (empty, multi) = (
        evaluations(&simulation, "empty", "empty"),
        evaluations(&simulation, "underutilized", "multi"),
    );
    tokio::time::sleep(Duration::from_secs(14 * 60)).await;
    assert_eq!(logs.with("abnormal time between runs"), [""; 0]);
    tokio::time::sleep(Duration::from_secs(2 * 60)).await;
    assert!(
        evaluations(&simulation, "empty", "empty") > empty + 60,
        "those before it go on"
    );
    assert_eq!(evaluations(&simulation, "underutilized", "multi"), multi);
    let named = logs.with("DEBUG abnormal time between runs");
    for (method, starved) in [
        ("disruption-loop", false),
        ("Emptiness", false),
        ("Drift", false),
        ("MultiNodeConsolidation", true),
        ("SingleNodeConsolidation", true),
    ] {
        let found = named.iter().any(|line| line.contains(&format!(" of={method} ")));
        assert_eq!(found, starved, "{method}: {named:?}");
    }
    // Emptiness needs no answer of the solver.
    let patch = json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation.until_nodes(1, 60).await;
    simulation.stop().await;
}

// DIS-094: a search that could not be made is not cached for five minutes, as one that found nothing is.
#[tokio::test(start_paused = true)]
async fn consolidation_goes_on_as_soon_as_a_pool_is_ready_again() {
    let logs = Logs::listen();
    let simulation = filled(2, "on-demand", json!({"consolidateAfter": "Never"})).await;
    let class = json!({"metadata": {"finalizers": null}});
    simulation.patch::<KwokNodeClass>("default", class).await;
    simulation.delete::<KwokNodeClass>("default").await;
    simulation.scale("big", 0).await;
    let soon = json!({"spec": {"disruption": {"consolidateAfter": "0s"}}});
    simulation.patch::<NodePool>("web", soon).await;
    simulation
        .until("consolidation fails", 120, async |_| {
            !logs
                .with("ERROR Reconciler error error=no dynamic nodepools found")
                .is_empty()
        })
        .await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tainted(&simulation).await, 0);
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&simulation.client(), class).await;
    simulation.until("it acts", 60, async |s| tainted(s).await > 0).await;
    simulation.stop().await;
}

// DIS-127
#[tokio::test(start_paused = true)]
async fn a_process_that_stops_while_it_waits_begins_nothing_else() {
    let simulation = with_nodes(2, json!({"consolidateAfter": "0s"})).await;
    simulation.scale("web", 1).await;
    simulation
        .until("the empty node is chosen", 30, async |s| eligible(s, "empty") == 1.0)
        .await;
    simulation.change_template("2").await;
    simulation
        .until("both have drifted", 5, async |s| {
            s.claims().await.iter().all(|claim| claim.condition_is_true("Drifted"))
        })
        .await;
    let client = simulation.client();
    simulation.stop().await;
    let nodes: Vec<Node> = list(&client).await;
    assert_eq!(nodes.iter().filter(|node| is_tainted(node)).count(), 0);
    assert_eq!(list::<NodeClaim>(&client).await.len(), 2);
}

// DIS-016
#[tokio::test(start_paused = true)]
async fn commands_of_one_method_start_side_by_side() {
    let logs = Logs::listen();
    let simulation = static_capacity::with_pool(3, json!({})).await;
    simulation
        .until("there are three", 60, async |s| static_capacity::has(s, 3).await)
        .await;
    let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    let (bad, slow) = (nodes[0].clone(), nodes[1].clone());
    let (simulation, api_faults) =
        with_api_faults(simulation, |options| options.feature_gates.static_capacity = true).await;
    api_faults.rule(move |request| match (request.method(), request.uri().path()) {
        (&Method::PATCH, path) if path.ends_with(&bad) => CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR),
        (&Method::PATCH, path) if path.ends_with(&slow) => CallFault::Late(Duration::from_secs(3)),
        _ => CallFault::None,
    });
    simulation.change_template("2").await;
    simulation
        .until("the quick one is marked", 15, async |s| tainted(s).await == 1)
        .await;
    let quick = Instant::now();
    simulation
        .until("the slow one too", 15, async |s| tainted(s).await == 2)
        .await;
    let between = quick.elapsed().as_secs();
    assert!((2..=3).contains(&between), "{between} s");
    let marked: Vec<String> = simulation
        .nodes()
        .await
        .iter()
        .filter(|node| is_tainted(node))
        .map(name)
        .collect();
    assert!(!marked.contains(&nodes[0]), "{marked:?}");
    // The pass fails with what failed; what was started goes on.
    simulation
        .until("the pass fails", 10, async |_| {
            !logs.with("ERROR Reconciler error error=marking disrupted, ").is_empty()
        })
        .await;
    api_faults.heal();
    simulation
        .until("all are renewed", 120, async |s| {
            let names: Vec<String> = s.nodes().await.iter().map(name).collect();
            static_capacity::has(s, 3).await && !nodes.iter().any(|old| names.contains(old))
        })
        .await;
    simulation.stop().await;
}
