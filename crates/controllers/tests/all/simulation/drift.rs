//! Drifted nodes are replaced, and no pod is lost on the way.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kerf_api::{Conditioned, NodeClaim, NodePool};
use kerf_runtime::metrics::catalogue::{
    DISRUPTION_DECISIONS, DISRUPTION_QUEUE_FAILURES, NODECLAIMS_CREATED, NODECLAIMS_DISRUPTED,
};
use kerf_sandbox::faults::FaultPlan;
use serde_json::{Value, json};

use crate::simulation::disruption_loop::{decisions_of, evaluations};
use crate::simulation::emptiness::{is_tainted, tainted, until_tainted, with_nodes};
use crate::simulation::harness::Simulation;

const NEVER: &str = "Never";

async fn drifted(simulation: &Simulation) -> usize {
    simulation
        .claims()
        .await
        .iter()
        .filter(|claim| claim.condition_is_true("Drifted"))
        .count()
}

fn is_new(claim: &NodeClaim, generation: &str) -> bool {
    let labels = claim.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get("generation")).map(String::as_str) == Some(generation)
}

/// Whether all claims are of that generation, each with a Node that is wanted, and so many pods run.
async fn is_renewed(simulation: &Simulation, generation: &str, nodes: usize, pods: usize) -> bool {
    let claims = simulation.claims().await;
    let all = simulation.nodes().await;
    claims.len() == nodes
        && claims
            .iter()
            .all(|claim| is_new(claim, generation) && claim.condition_is_true("Initialized"))
        && all.len() == nodes
        && !all.iter().any(is_tainted)
        && simulation.running().await == pods
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_renews_node_after_node_with_the_replacement_first() {
    let simulation = with_nodes(3, json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "10%"}]})).await;
    simulation.change_template("2").await;
    // DIS-302
    simulation
        .until("the claims have drifted", 5, async |s| drifted(s).await == 3)
        .await;
    let reasons: Vec<String> = simulation
        .claims()
        .await
        .iter()
        .filter_map(|claim| Some(claim.condition("Drifted")?.reason().to_owned()))
        .collect();
    // DIS-215
    assert_eq!(reasons, ["NodePoolDrifted"; 3]);
    let end = tokio::time::Instant::now() + Duration::from_secs(600);
    while !is_renewed(&simulation, "2", 3, 3).await {
        assert!(tokio::time::Instant::now() < end, "{}", simulation.picture().await);
        let nodes = simulation.nodes().await;
        let going = nodes.iter().filter(|node| is_tainted(node)).count();
        // DIS-088, DIS-241, DIS-304: one at a time.
        assert!(going <= 1, "{going} nodes at once");
        let claims = simulation.claims().await;
        let usable =
            |claim: &&NodeClaim| claim.condition_is_true("Initialized") && claim.metadata.deletion_timestamp.is_none();
        // DIS-274: nothing goes before its replacement is there.
        assert!(
            claims.iter().filter(usable).count() >= 3,
            "{}",
            simulation.picture().await
        );
        // DIS-265, DIS-287: nothing is launched twice.
        assert!(claims.len() <= 4, "{}", simulation.picture().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let metrics = &simulation.context.metrics;
    // DIS-262
    assert_eq!(
        metrics.counter(&NODECLAIMS_CREATED).get(&["drifted", "web", "false"]),
        3.0
    );
    assert_eq!(
        metrics
            .counter(&NODECLAIMS_CREATED)
            .get(&["provisioned", "web", "false"]),
        3.0
    );
    // DIS-268
    assert_eq!(
        metrics.counter(&DISRUPTION_DECISIONS).get(&["replace", "drifted", ""]),
        3.0
    );
    // DIS-271, DIS-272, OPS-189, OPS-190
    assert_eq!(
        simulation.messages("DisruptionLaunching").await,
        ["Launching NodeClaim: Drifted"; 3]
    );
    let waiting = simulation.messages("DisruptionWaitingReadiness").await;
    assert!(
        waiting
            .iter()
            .all(|text| text == "Waiting on readiness to continue disruption")
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_renewed(&simulation, "2", 3, 3).await, "it stays so");
    simulation.stop().await;
}

// DIS-088
#[tokio::test(start_paused = true)]
async fn three_of_ten_drifted_nodes_are_on_their_way_out_at_thirty_per_cent() {
    let simulation = with_nodes(10, json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "30%"}]})).await;
    simulation.delay_registration("2m").await;
    simulation.change_template("2").await;
    until_tainted(&simulation, 3).await;
    let passes = evaluations(&simulation, "drifted", "");
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(tainted(&simulation).await, 3);
    }
    // Static and dynamic drift count alike.
    let passes = (evaluations(&simulation, "drifted", "") - passes) / 2;
    assert!(passes >= 5, "{passes} passes");
    assert_eq!(drifted(&simulation).await, 10);
    assert_eq!(decisions_of(&simulation, "drifted"), 3.0);
    assert_eq!(simulation.claims().await.len(), 13);
    simulation.delay_registration("0s").await;
    simulation
        .until("all are renewed", 1200, async |s| is_renewed(s, "2", 10, 10).await)
        .await;
    assert_eq!(decisions_of(&simulation, "drifted"), 10.0);
    simulation.stop().await;
}

// DIS-262: drift counts pods that wait in what it launches, and provisioning launches for them too (docs/deviations.md).
#[tokio::test(start_paused = true)]
async fn drift_asks_for_no_machine_that_provisioning_asks_for_at_the_same_time() {
    for tenths in 0..24 {
        let before = with_nodes(1, json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "100%"}]})).await;
        let sandbox = before.crash().await;
        let (client, faults) = sandbox.client_with_faults("controller");
        let simulation = Simulation::join_as(sandbox, client, |_| {});
        tokio::time::sleep(Duration::from_secs(30)).await;
        // Slow enough for each to decide while the other writes.
        let latency = Duration::from_millis(1500);
        faults.set(FaultPlan {
            latency: Some((latency, latency)),
            ..FaultPlan::default()
        });
        simulation.change_template("2").await;
        simulation
            .until("it has drifted", 60, async |s| drifted(s).await == 1)
            .await;
        tokio::time::sleep(Duration::from_millis(tenths * 500)).await;
        simulation.scale("web", 2).await;
        simulation
            .until("both run on new machines", 300, async |s| {
                is_renewed(s, "2", 2, 2).await
            })
            .await;
        let made = simulation.context.metrics.counter(&NODECLAIMS_CREATED);
        let made = ["drifted", "provisioned"].map(|reason| made.get(&[reason, "web", "false"]));
        assert_eq!(made.iter().sum::<f64>(), 2.0, "{made:?} after {tenths}");
        simulation.stop().await;
    }
}

// DIS-216, DIS-218, DIS-236
#[tokio::test(start_paused = true)]
async fn requirements_that_exclude_a_node_replace_it_and_wider_ones_cure_it() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "0"}]})).await;
    let zone =
        simulation.claims().await[0].metadata.labels.clone().unwrap_or_default()["topology.kubernetes.io/zone"].clone();
    let require = |operator: &str| {
        let requirement = json!({"key": "topology.kubernetes.io/zone", "operator": operator, "values": [zone]});
        json!({"spec": {"template": {"spec": {"requirements": [requirement]}}}})
    };
    simulation.patch::<NodePool>("web", require("NotIn")).await;
    simulation
        .until("it has drifted", 5, async |s| drifted(s).await == 1)
        .await;
    let claim = simulation.claims().await.remove(0);
    assert_eq!(
        claim
            .condition("Drifted")
            .map(|drifted| drifted.reason().to_owned())
            .as_deref(),
        Some("RequirementsDrifted")
    );
    simulation.patch::<NodePool>("web", require("In")).await;
    // DIS-215: removed, not False.
    simulation
        .until("it is cured", 5, async |s| {
            s.claims().await[0].condition("Drifted").is_none()
        })
        .await;
    simulation.stop().await;
}

// DIS-035, DIS-245
#[tokio::test(start_paused = true)]
async fn a_protected_pod_keeps_its_drifted_node() {
    let (simulation, pod) = drifted_under_a_pod(json!("true")).await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        (
            tainted(&simulation).await,
            simulation.claims().await.len(),
            drifted(&simulation).await
        ),
        (0, 1, 1)
    );
    let text = format!("Pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod=default/{pod})");
    assert!(simulation.messages("DisruptionBlocked").await.contains(&text));
    // DIS-058: the next pass finds it free.
    annotate_pod(&simulation, &pod, Value::Null).await;
    simulation
        .until("it is renewed", 120, async |s| is_renewed(s, "2", 1, 1).await)
        .await;
    simulation.stop().await;
}

// DIS-055, DIS-056, OPS-206, OPS-207
#[tokio::test(start_paused = true)]
async fn protection_for_a_time_ends_by_itself() {
    let (simulation, _) = drifted_under_a_pod(json!("5m")).await;
    tokio::time::sleep(Duration::from_secs(180)).await;
    assert_eq!((tainted(&simulation).await, simulation.claims().await.len()), (0, 1));
    let until = simulation.messages("DoNotDisruptUntil").await;
    assert!(
        until[0].starts_with("The karpenter.sh/do-not-disrupt grace period will elapse at 2026-01-01T00:0"),
        "{until:?}"
    );
    simulation
        .until("it is renewed", 300, async |s| is_renewed(s, "2", 1, 1).await)
        .await;
    let elapsed = simulation.messages("DoNotDisruptGracePeriodElapsed").await;
    assert_eq!(
        elapsed,
        ["The karpenter.sh/do-not-disrupt grace period has elapsed, pod is now disruptable"]
    );
    simulation.stop().await;
}

// DIS-053, OPS-205
#[tokio::test(start_paused = true)]
async fn nonsense_protects_nothing_and_is_told() {
    let (simulation, _) = drifted_under_a_pod(json!("yes")).await;
    simulation
        .until("it is renewed", 120, async |s| is_renewed(s, "2", 1, 1).await)
        .await;
    let told = simulation.messages("InvalidDoNotDisruptAnnotation").await;
    assert!(
        told[0].starts_with("Invalid karpenter.sh/do-not-disrupt annotation: ")
            && told[0].ends_with(", ignoring annotation"),
        "{told:?}"
    );
    simulation.stop().await;
}

/// How many decisions for a reason deleted nodes without a replacement.
fn deletions_of(simulation: &Simulation, reason: &str) -> f64 {
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    decisions.get(&["delete", reason, ""])
}

/// A node that has drifted, with one pod whose annotation do-not-disrupt has this value. Returns the name of the pod, too.
async fn drifted_under_a_pod(do_not_disrupt: Value) -> (Simulation, String) {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    let pod = simulation.pods().await[0].metadata.name.clone().expect("a name");
    annotate_pod(&simulation, &pod, do_not_disrupt).await;
    simulation.change_template("2").await;
    (simulation, pod)
}

async fn annotate_pod(simulation: &Simulation, name: &str, value: Value) {
    use kube::api::{Patch, PatchParams};
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(simulation.client(), "default");
    let patch = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": value}}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("annotated");
}

// DIS-157
#[tokio::test(start_paused = true)]
async fn an_empty_drifted_node_goes_as_drifted_while_it_may_not_be_consolidated() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    simulation.scale("web", 0).await;
    simulation.change_template("2").await;
    simulation.until_nodes(0, 60).await;
    assert_eq!(deletions_of(&simulation, "drifted"), 1.0);
    simulation.stop().await;
}

// DIS-005, DIS-157
#[tokio::test(start_paused = true)]
async fn an_empty_drifted_node_goes_as_empty_where_it_may() {
    let simulation = with_nodes(1, json!({"consolidateAfter": "0s"})).await;
    let patch = json!({"spec": {"disruption": {"budgets": [{"nodes": "0"}]}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation.scale("web", 0).await;
    simulation.change_template("2").await;
    let both = async |s: &Simulation| {
        let claims = s.claims().await;
        claims[0].condition_is_true("Drifted") && claims[0].condition_is_true("Consolidatable")
    };
    simulation.until("it is both", 60, both).await;
    let patch = json!({"spec": {"disruption": {"budgets": [{"nodes": "100%"}]}}});
    simulation.patch::<NodePool>("web", patch).await;
    simulation.until_nodes(0, 60).await;
    let metrics = &simulation.context.metrics;
    assert_eq!(
        metrics
            .counter(&DISRUPTION_DECISIONS)
            .get(&["delete", "empty", "empty"]),
        1.0
    );
    simulation.stop().await;
}

// DIS-247, DIS-279, DIS-281, DIS-282, DIS-283, DIS-303, OPS-161
#[tokio::test(start_paused = true)]
async fn a_replacement_that_never_registers_lets_the_old_node_be() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    let old = simulation.claims().await[0].metadata.uid.clone();
    simulation.delay_registration("2h").await;
    simulation.change_template("2").await;
    until_tainted(&simulation, 1).await;
    let began = tokio::time::Instant::now();
    simulation
        .until("it is let go", 11 * 60, async |s| tainted(s).await == 0)
        .await;
    assert!(began.elapsed() >= Duration::from_secs(599), "{:?}", began.elapsed());
    let claims = simulation.claims().await;
    // API-118
    assert!(claims.iter().all(|claim| claim.condition("DisruptionReason").is_none()));
    assert_eq!(claims.len(), 2, "the replacement is not deleted with the command");
    let failures = simulation.context.metrics.counter(&DISRUPTION_QUEUE_FAILURES);
    assert_eq!(failures.get(&["replace", "drifted", "replace"]), 1.0);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(
        tainted(&simulation).await,
        0,
        "not again while the replacement may still come"
    );
    assert!(simulation.claims().await.iter().any(|claim| claim.metadata.uid == old));
    assert_eq!(simulation.running().await, 1);
    simulation.delay_registration("0s").await;
    simulation
        .until("it is renewed after all", 40 * 60, async |s| {
            is_renewed(s, "2", 1, 1).await
        })
        .await;
    simulation.stop().await;
}

// DIS-247, DIS-273
#[tokio::test(start_paused = true)]
async fn a_replacement_that_vanishes_ends_the_command_at_once() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    simulation.delay_registration("2h").await;
    simulation.change_template("2").await;
    simulation
        .until("the replacement is launched", 30, async |s| {
            s.claims().await.len() == 2 && tainted(s).await == 1
        })
        .await;
    let claims = simulation.claims().await;
    let replacement = claims
        .iter()
        .find(|claim| is_new(claim, "2"))
        .and_then(|claim| claim.metadata.name.clone());
    simulation.delay_registration("0s").await;
    simulation
        .delete::<NodeClaim>(&replacement.expect("a replacement"))
        .await;
    let failures = simulation.context.metrics.counter(&DISRUPTION_QUEUE_FAILURES);
    simulation
        .until("the command fails", 60, async |_| {
            failures.get(&["replace", "drifted", "replace"]) == 1.0
        })
        .await;
    simulation
        .until("it is renewed after all", 120, async |s| is_renewed(s, "2", 1, 1).await)
        .await;
    simulation.stop().await;
}

// DIS-317
#[tokio::test(start_paused = true)]
async fn a_candidate_that_vanishes_does_not_hold_up_the_command() {
    let simulation = with_nodes(2, json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "1"}]})).await;
    simulation.delay_registration("1m").await;
    simulation.change_template("2").await;
    until_tainted(&simulation, 1).await;
    let nodes = simulation.nodes().await;
    let node = nodes.iter().find(|node| is_tainted(node)).expect("a marked node");
    let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
    let claims = simulation.claims().await;
    let of_node = |claim: &&NodeClaim| claim.status.as_ref().and_then(|status| status.provider_id.clone()) == id;
    let claim = claims
        .iter()
        .find(of_node)
        .and_then(|claim| claim.metadata.name.clone())
        .expect("its claim");
    simulation.delete::<NodeClaim>(&claim).await;
    simulation
        .until("both are renewed", 600, async |s| is_renewed(s, "2", 2, 2).await)
        .await;
    let disrupted = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    let total: f64 = ["spot", "on-demand"]
        .iter()
        .map(|kind| disrupted.get(&["drifted", "web", kind]))
        .sum();
    // DIS-277: what the user deleted is not counted.
    assert_eq!(total, 1.0);
    simulation.stop().await;
}

// DIS-004, DIS-014
#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_wastes_nothing() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    simulation.change_template("2").await;
    let born = async |s: &Simulation| {
        let initialized = s
            .claims()
            .await
            .iter()
            .filter(|claim| claim.condition_is_true("Initialized"))
            .count();
        s.nodes().await.len() == 2 && initialized == 1
    };
    simulation.until("the replacement is on its way", 30, born).await;
    let before: Vec<Option<String>> = simulation
        .claims()
        .await
        .into_iter()
        .map(|claim| claim.metadata.uid)
        .collect();
    let simulation = Simulation::join(simulation.crash().await, |_| {});
    simulation
        .until("the old node is let go", 20, async |s| tainted(s).await == 0)
        .await;
    simulation
        .until("it is renewed after all", 300, async |s| is_renewed(s, "2", 1, 1).await)
        .await;
    let after = simulation.claims().await.remove(0).metadata.uid;
    assert!(
        before.contains(&after),
        "the first replacement was used, no second was made"
    );
    assert_eq!(deletions_of(&simulation, "drifted"), 1.0);
    simulation.stop().await;
}

// DIS-244
#[tokio::test(start_paused = true)]
async fn a_grace_period_opens_the_door_for_drift() {
    let simulation = Simulation::start().await;
    let template = json!({"spec": {"terminationGracePeriod": "60s"}});
    simulation.run_one_pod(json!({"template": template}), json!({})).await;
    let pod = simulation.pods().await[0].metadata.name.clone().expect("a name");
    annotate_pod(&simulation, &pod, json!("true")).await;
    simulation.change_template("2").await;
    let old = async |s: &Simulation| {
        let nodes = s.nodes().await;
        nodes
            .iter()
            .any(|node: &Node| node.metadata.deletion_timestamp.is_some())
    };
    simulation.until("the node is drained", 60, old).await;
    assert_eq!(deletions_of(&simulation, "drifted"), 1.0);
    simulation
        .until("the pod runs on a new one", 240, async |s| {
            is_renewed(s, "2", 1, 1).await
        })
        .await;
    simulation.stop().await;
}
