//! Disruption commands from start to end: the order of writes, retries and events.

use std::time::Duration;

use http::{Method, StatusCode};
use kerf_api::{Conditioned, NodePool};
use kerf_runtime::metrics::catalogue::{
    DISRUPTION_DECISIONS, DISRUPTION_QUEUE_FAILURES, NODECLAIMS_CREATED, SCHEDULING_DURATION,
};
use kerf_sandbox::faults::FaultPlan;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::simulation::api_faults::{CallFault, with_api_faults};
use crate::simulation::consolidation::filled;
use crate::simulation::emptiness::{is_tainted, tainted, until_tainted, with_nodes};
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

const NEVER: &str = "Never";

/// The sum of all series that begin so.
fn metric(simulation: &Simulation, series: &str) -> f64 {
    let text = simulation.context.metrics.encode();
    let lines = text.lines().filter(|line| line.starts_with(series));
    lines
        .filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        .sum()
}

fn failures(simulation: &Simulation) -> f64 {
    let failures = simulation.context.metrics.counter(&DISRUPTION_QUEUE_FAILURES);
    failures.get(&["replace", "drifted", "replace"])
}

// DIS-003, DIS-256, DIS-297
#[tokio::test(start_paused = true)]
async fn a_replacement_goes_step_by_step() {
    let logs = Logs::listen();
    let (simulation, api_faults) =
        with_api_faults(filled(1, "on-demand", json!({"consolidateAfter": "10s"})).await, |_| {}).await;
    let (old, node) = (name(&simulation.claims().await[0]), name(&simulation.nodes().await[0]));
    simulation.delay_registration("30s").await;
    simulation.scale("big", 0).await;
    simulation
        .until("it is announced", 90, async |s| {
            !s.messages("ConsolidationCandidate").await.is_empty()
        })
        .await;
    let announced = Instant::now();
    api_faults.forget();
    simulation
        .until("the old one is gone", 120, async |s| {
            let claims = s.claims().await;
            claims.len() == 1 && name(&claims[0]) != old
        })
        .await;
    let first = |end: &str, from: Instant| {
        let mut writes = api_faults.writes(end).into_iter().map(|write| write.at);
        writes.find(|at| *at >= from).expect("a write")
    };
    // The wait and the validation precede every write.
    let tainted = first(&format!("PATCH /api/v1/nodes/{node}"), announced);
    let steps = [
        tainted,
        first(&format!("PATCH /apis/karpenter.sh/v1/nodeclaims/{old}/status"), tainted),
        first("POST /apis/karpenter.sh/v1/nodeclaims", announced),
        first(&format!("DELETE /apis/karpenter.sh/v1/nodeclaims/{old}"), announced),
    ];
    assert!(steps.is_sorted(), "{steps:?}");
    let waited = (steps[0] - announced).as_secs_f64();
    assert!((14.5..=15.1).contains(&waited), "{waited}");
    let launched = (steps[3] - steps[2]).as_secs();
    assert!(
        (30..=60).contains(&launched),
        "it goes when the other is ready: {launched} s"
    );

    let started = logs.with("INFO disrupting node(s)");
    assert_eq!(started.len(), 1, "{started:?}");
    let new = simulation.claims().await[0].metadata.labels.clone().unwrap_or_default();
    let kind = &new["node.kubernetes.io/instance-type"];
    let (plain, lists) = started[0].split_once(" disrupted-nodes=\u{1}").expect("the nodes");
    assert!(
        plain.starts_with("INFO disrupting node(s) command=Underutilized/"),
        "{plain}"
    );
    let (plain, prices) = plain.split_once(" hourly-price-before=").expect("the prices");
    let counts = " decision=replace disrupted-node-count=1 replacement-node-count=1 pod-count=1";
    assert!(plain.ends_with(counts), "{plain}");
    let (before, after) = prices.split_once(" hourly-price-after=").expect("both prices");
    let dollars = |text: &str| text.parse::<f64>().expect("a number");
    assert!(dollars(before) > dollars(after) && dollars(after) > 0.0, "{prices}");
    let (going, coming) = lists
        .split_once(" replacement-nodes=\u{1}")
        .expect("what replaces them");
    let parse = |text: &str| -> Value { serde_json::from_str(text).expect("JSON") };
    let gone = json!([{"Node": {"name": node}, "NodeClaim": {"name": old}, "capacity-type": "on-demand", "instance-type": "c-2x-amd64-linux"}]);
    assert_eq!(parse(going), gone);
    let coming = parse(coming);
    assert_eq!(
        (coming.as_array().map(Vec::len), &coming[0]["capacity-type"]),
        (Some(1), &json!("on-demand"))
    );
    let types = coming[0]["instance-types"].as_str().unwrap_or_default();
    assert!(types.split(", ").any(|name| name == kind), "{types} without {kind}");
    simulation.stop().await;
}

// DIS-260
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_marked_is_left_out_of_a_deletion() {
    let logs = Logs::listen();
    let (simulation, api_faults) =
        with_api_faults(with_nodes(2, json!({"consolidateAfter": "0s"})).await, |_| {}).await;
    let (bad, good) = {
        let nodes = simulation.nodes().await;
        (name(&nodes[0]), name(&nodes[1]))
    };
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::PATCH, &format!("/nodes/{bad}"), refused);
    simulation.scale("web", 0).await;
    simulation
        .until("the other goes", 60, async |s| {
            s.nodes()
                .await
                .iter()
                .any(|node| name(node) == good && is_tainted(node))
        })
        .await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let said = logs.with("ERROR marking some nodes failed, disrupting the others");
    assert_eq!(said.len(), 1, "{said:?}");
    // OPS-108
    assert_eq!(api_faults.writes(&format!("PATCH /api/v1/nodes/{bad}")).len(), 4);
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    assert_eq!(decisions.get(&["delete", "empty", "empty"]), 1.0);
    simulation.until_nodes(1, 30).await;
    // Its only node cannot be marked, so no command for it can start.
    simulation
        .until("another start fails", 60, async |_| {
            !logs.with("ERROR Reconciler error error=marking disrupted, ").is_empty()
        })
        .await;
    assert_eq!(decisions.get(&["delete", "empty", "empty"]), 1.0);
    let claim = simulation.claims().await.remove(0);
    assert_eq!(
        (tainted(&simulation).await, claim.metadata.deletion_timestamp),
        (0, None)
    );
    api_faults.heal();
    simulation.until_nodes(0, 90).await;
    simulation.stop().await;
}

// DIS-260, DIS-261
#[tokio::test(start_paused = true)]
async fn a_replacement_needs_every_mark() {
    let logs = Logs::listen();
    let budgets = |nodes: &str| json!({"spec": {"disruption": {"budgets": [{"nodes": nodes}]}}});
    let closed = json!({"consolidateAfter": NEVER, "budgets": [{"nodes": "0"}]});
    let (simulation, api_faults) = with_api_faults(with_nodes(1, closed).await, |_| {}).await;
    let claim = name(&simulation.claims().await[0]);
    simulation.change_template("2").await;
    simulation
        .until("it has drifted", 5, async |s| {
            s.claims().await[0].condition_is_true("Drifted")
        })
        .await;
    // The Node can be marked, its claim cannot.
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::PATCH, &format!("/nodeclaims/{claim}/status"), refused);
    simulation.patch::<NodePool>("web", budgets("100%")).await;
    simulation
        .until("the start fails", 30, async |_| {
            !logs.with("ERROR Reconciler error error=marking disrupted, ").is_empty()
        })
        .await;
    let created = simulation.context.metrics.counter(&NODECLAIMS_CREATED);
    assert_eq!(
        (
            created.get(&["drifted", "web", "false"]),
            simulation.claims().await.len()
        ),
        (0.0, 1)
    );
    // Every pass takes the mark on the Node off and tries again, until there is no more reason to.
    simulation.patch::<NodePool>("web", budgets("0")).await;
    simulation
        .until("the mark on the Node is taken off", 15, async |s| tainted(s).await == 0)
        .await;
    api_faults.heal();
    simulation.patch::<NodePool>("web", budgets("100%")).await;
    simulation
        .until("it is replaced after all", 120, async |s| {
            let claims = s.claims().await;
            claims.len() == 1 && name(&claims[0]) != claim && s.running().await == 1
        })
        .await;
    simulation.stop().await;
}

// DIS-013, DIS-015
#[tokio::test(start_paused = true)]
async fn nodes_that_change_while_they_are_marked_are_tried_again_without_noise() {
    let logs = Logs::listen();
    let (simulation, api_faults) =
        with_api_faults(with_nodes(2, json!({"consolidateAfter": "0s"})).await, |_| {}).await;
    let claims = simulation.claims().await;
    let changed = CallFault::Refused(StatusCode::CONFLICT);
    api_faults.rule(move |request| {
        let path = request.uri().path();
        let mark = |claim| path.ends_with(&format!("/nodeclaims/{}/status", name(claim)));
        match *request.method() == Method::PATCH && claims.iter().any(mark) {
            true => changed,
            false => CallFault::None,
        }
    });
    simulation.scale("web", 0).await;
    let attempts = |node: &str| api_faults.writes(&format!("PATCH /api/v1/nodes/{node}")).len();
    let node = name(&simulation.nodes().await[0]);
    simulation
        .until("it was tried more than once", 120, async |_| attempts(&node) >= 3)
        .await;
    for level in ["ERROR ", "WARN "] {
        assert!(logs.with(level).is_empty(), "{:?}", logs.with(level));
    }
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    assert_eq!(decisions.get(&["delete", "empty", "empty"]), 0.0);
    api_faults.heal();
    simulation.until_nodes(0, 90).await;
    simulation.stop().await;
}

// DIS-264
#[tokio::test(start_paused = true)]
async fn a_replacement_is_known_before_the_watch_tells_of_it() {
    let sandbox = with_nodes(1, json!({"consolidateAfter": NEVER})).await.crash().await;
    let (client, faults) = sandbox.client_with_faults("controller");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    tokio::time::sleep(Duration::from_secs(15)).await;
    faults.set(FaultPlan {
        watch_lag: Duration::from_secs(20),
        ..FaultPlan::default()
    });
    simulation.change_template("2").await;
    simulation.until_claims(2, 90).await;
    let known = simulation.context.cluster.claims().len();
    assert_eq!(known, 2);
    simulation.stop().await;
}

// DIS-270, DIS-287
#[tokio::test(start_paused = true)]
async fn a_command_is_examined_every_second_and_planning_goes_on_meanwhile() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    simulation.delay_registration("3m").await;
    simulation.change_template("2").await;
    simulation.until_claims(2, 30).await;
    let examined = |s: &Simulation| metric(s, "controller_runtime_reconcile_total{controller=\"disruption.queue\"");
    let planned = |s: &Simulation| {
        s.context
            .metrics
            .histogram(&SCHEDULING_DURATION)
            .count(&["provisioner"])
    };
    let before = (examined(&simulation), planned(&simulation));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let rounds = examined(&simulation) - before.0;
    assert!((58.0..=61.0).contains(&rounds), "{rounds} in a minute");
    // A pod created now is planned onto the replacement: no third node.
    simulation.deployment("more", 1, "100m", json!({})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let passes = planned(&simulation) - before.1;
    assert!(passes >= 5, "{passes} passes in two minutes");
    assert_eq!(simulation.claims().await.len(), 2);
    simulation
        .until("all run on the new node", 300, async |s| {
            s.nodes().await.len() == 1 && s.running().await == 2
        })
        .await;
    simulation.stop().await;
}

// DIS-275, DIS-276, DIS-318
#[tokio::test(start_paused = true)]
async fn claims_are_deleted_at_once_and_again_where_that_fails() {
    let (simulation, api_faults) =
        with_api_faults(with_nodes(2, json!({"consolidateAfter": "0s"})).await, |_| {}).await;
    let (bad, good) = {
        let claims = simulation.claims().await;
        (name(&claims[0]), name(&claims[1]))
    };
    let path = |claim: &str| format!("/apis/karpenter.sh/v1/nodeclaims/{claim}");
    let refused = CallFault::Refused(StatusCode::INTERNAL_SERVER_ERROR);
    api_faults.on(Method::DELETE, &path(&bad), refused);
    simulation.scale("web", 0).await;
    simulation.until_claims(1, 90).await;
    let writes = |method: &str, claim: &str| api_faults.writes(&format!("{method} {}", path(claim)));
    let (first, other) = (writes("DELETE", &bad), writes("DELETE", &good));
    assert_eq!(first[0].at, other[0].at, "both at once");
    assert_eq!(other.len(), 1, "what goes is not deleted again");
    // With the start, not with the next examination after it.
    let marks = writes("PATCH", &format!("{bad}/status"));
    let marked = marks.iter().map(|write| write.at).filter(|at| *at <= first[0].at).max();
    assert!(
        marked.is_some_and(|marked| first[0].at - marked < Duration::from_millis(500)),
        "{marks:?}"
    );
    // Four attempts within half a second, and the same again a second later.
    let since: Vec<u128> = first.iter().map(|write| (write.at - first[0].at).as_millis()).collect();
    assert!(
        (275..=345).contains(&since[3]) && (1275..=1350).contains(&since[4]),
        "{since:?}"
    );
    assert_eq!(tainted(&simulation).await, 1);
    api_faults.heal();
    simulation.until_claims(0, 30).await;
    // Each is counted once, however often the command was examined.
    assert_eq!(metric(&simulation, "karpenter_nodeclaims_disrupted_total{"), 2.0);
    assert_eq!(simulation.messages("DisruptionTerminating").await.len(), 4);
    simulation.stop().await;
}

// DIS-276
#[tokio::test(start_paused = true)]
async fn a_claim_that_is_gone_already_is_no_failure() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    simulation.delay_registration("1m").await;
    let logs = Logs::listen();
    let (simulation, api_faults) = with_api_faults(simulation, |_| {}).await;
    let old = name(&simulation.claims().await[0]);
    api_faults.on(
        Method::DELETE,
        &format!("/nodeclaims/{old}"),
        CallFault::Refused(StatusCode::NOT_FOUND),
    );
    simulation.change_template("2").await;
    simulation
        .until("the command ends", 180, async |_| {
            !logs.with("DEBUG command succeeded").is_empty()
        })
        .await;
    assert_eq!(
        api_faults
            .writes(&format!("DELETE /apis/karpenter.sh/v1/nodeclaims/{old}"))
            .len(),
        1
    );
    assert_eq!(metric(&simulation, "karpenter_nodeclaims_disrupted_total{"), 0.0);
    simulation.stop().await;
}

// DIS-278
#[tokio::test(start_paused = true)]
async fn a_node_that_takes_long_to_drain_stays_marked_without_its_command() {
    let logs = Logs::listen();
    let simulation = Simulation::start().await;
    let template = json!({"spec": {"terminationGracePeriod": "20m"}});
    simulation.populate(1, json!({"template": template})).await;
    let pod = name(&simulation.pods().await[0]);
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(simulation.client(), "default");
    let protected = Patch::Merge(json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}}));
    pods.patch(&pod, &PatchParams::default(), &protected)
        .await
        .expect("annotated");
    simulation.change_template("2").await;
    simulation
        .until("the command succeeds", 60, async |_| {
            !logs.with("DEBUG command succeeded").is_empty()
        })
        .await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let snapshot = simulation.context.cluster.snapshot(simulation.context.now());
        assert!(snapshot.nodes.iter().any(|node| node.marked_for_deletion));
    }
    let decisions = simulation.context.metrics.counter(&DISRUPTION_DECISIONS);
    assert_eq!(decisions.get(&["delete", "drifted", ""]), 1.0);
    assert_eq!(logs.with("DEBUG command succeeded").len(), 1);
    let examined = metric(
        &simulation,
        "controller_runtime_reconcile_total{controller=\"disruption.queue\"",
    );
    assert!(examined <= 3.0, "it is forgotten: {examined}");
    simulation.stop().await;
}

// DIS-280, OPS-251
#[tokio::test(start_paused = true)]
async fn a_command_that_ends_a_little_late_has_succeeded() {
    let logs = Logs::listen();
    let (simulation, api_faults) =
        with_api_faults(with_nodes(1, json!({"consolidateAfter": NEVER})).await, |_| {}).await;
    let old = name(&simulation.claims().await[0]);
    // The replacement registers within the ten minutes, and the deletion is answered after them.
    simulation.delay_registration("9m20s").await;
    api_faults.on(
        Method::DELETE,
        &format!("/nodeclaims/{old}"),
        CallFault::Late(Duration::from_secs(60)),
    );
    simulation.change_template("2").await;
    until_tainted(&simulation, 1).await;
    let began = Instant::now();
    simulation
        .until("it is gone", 12 * 60, async |s| {
            let claims = s.claims().await;
            claims.len() == 1 && name(&claims[0]) != old
        })
        .await;
    assert!(began.elapsed() > Duration::from_secs(600), "{:?}", began.elapsed());
    assert_eq!(logs.with("DEBUG command succeeded").len(), 1);
    assert_eq!(logs.with("failed terminating nodes"), [""; 0]);
    assert_eq!(failures(&simulation), 0.0);
    simulation.stop().await;
}

// DIS-284
#[tokio::test(start_paused = true)]
async fn a_command_taken_back_gives_its_claim_back_to_the_pool() {
    let simulation = with_nodes(1, json!({"consolidateAfter": NEVER})).await;
    let old = name(&simulation.claims().await[0]);
    let sets = |s: &Simulation| {
        let sets = s.context.cluster.pool_claims("web");
        let has = |claims: &std::collections::BTreeSet<std::sync::Arc<str>>| claims.iter().any(|claim| **claim == *old);
        (has(&sets.active), has(&sets.deleting))
    };
    simulation.delay_registration("2h").await;
    simulation.change_template("2").await;
    simulation
        .until("it is on its way out", 30, async |s| sets(s) == (false, true))
        .await;
    simulation
        .until("the command fails", 11 * 60, async |s| failures(s) == 1.0)
        .await;
    assert_eq!(sets(&simulation), (true, false));
    simulation.stop().await;
}
