//! The order of consolidation methods in the loop: sets of nodes before single nodes, and searches that run out of time.

use std::time::Duration;

use kerf_controllers::{SearchLimits, Tuning};
use kerf_runtime::metrics::catalogue::{
    DISRUPTION_CONSOLIDATION_TIMEOUTS, DISRUPTION_FAILED_VALIDATIONS, NODEPOOLS_ALLOWED_DISRUPTIONS,
    NODEPOOLS_NODES_CONSUMING_BUDGETS,
};
use serde_json::json;

use crate::simulation::consolidation::{filled, filled_long_ago};
use crate::simulation::disruption_loop::{bind, decisions_of, eligible, evaluations, protected};
use crate::simulation::emptiness::tainted;
use crate::simulation::harness::{Simulation, name};
use crate::simulation::logs::Logs;

// DIS-173
#[tokio::test(start_paused = true)]
async fn after_a_set_of_nodes_that_no_longer_goes_single_ones_have_their_turn() {
    let disruption = json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]});
    let simulation = filled_long_ago(4, "spot", disruption).await;
    let nodes: Vec<String> = simulation.nodes().await.iter().map(name).collect();
    simulation.scale("big", 0).await;
    let passes = evaluations(&simulation, "underutilized", "multi");
    simulation
        .until("a set waits", 90, async |s| eligible(s, "underutilized") == 4.0)
        .await;
    let singles = evaluations(&simulation, "underutilized", "single");
    for (number, node) in nodes.iter().enumerate() {
        bind(&simulation, "default", &format!("late-{number}"), node, protected()).await;
    }
    simulation
        .until("it is given up", 20, async |s| {
            !s.messages("ConsolidationRejected").await.is_empty()
        })
        .await;
    assert!(evaluations(&simulation, "underutilized", "multi") > passes);
    simulation
        .until("single nodes are looked at", 1, async |s| {
            evaluations(s, "underutilized", "single") > singles
        })
        .await;
    assert_eq!(eligible(&simulation, "underutilized"), 0.0, "as they are now");
    let rejected = simulation.messages("ConsolidationRejected").await;
    assert_eq!(rejected.len(), 4, "two nodes, each with its claim: {rejected:?}");
    for text in &rejected {
        assert!(
            text.starts_with("Consolidation rejected: delete: [")
                && text.contains("] (part of 2-node consolidation), reason: churn (savings: $0."),
            "{text}"
        );
    }
    let failed = simulation.context.metrics.counter(&DISRUPTION_FAILED_VALIDATIONS);
    assert_eq!((failed.get(&["multi"]), failed.get(&["single"])), (2.0, 0.0));
    assert_eq!(tainted(&simulation).await, 0);
    simulation.stop().await;
}

// DIS-164, DIS-175, DIS-176, DIS-314
#[tokio::test(start_paused = true)]
async fn searches_without_time_disrupt_nothing_and_drift_has_all_it_needs() {
    let logs = Logs::listen();
    let disruption = json!({"consolidateAfter": "10s", "budgets": [{"nodes": "100%"}]});
    let sandbox = filled(3, "spot", disruption).await.crash().await;
    let (client, none) = (sandbox.client(), Duration::ZERO);
    let tuning = Tuning {
        search: SearchLimits {
            multi: none,
            single: none,
        },
        ..Tuning::default()
    };
    let simulation = Simulation::join_tuned(sandbox, client, |_| {}, |provider| provider, tuning);
    simulation.scale("big", 0).await;
    let message = "DEBUG prioritizing nodepools that have not yet been considered due to timeouts in previous runs";
    simulation
        .until("a search is cut off", 120, async |_| {
            !logs
                .with("DEBUG abandoning single-node consolidation due to timeout")
                .is_empty()
        })
        .await;
    assert_eq!(logs.with(message), [""; 0], "the first time nobody was left over");
    tokio::time::sleep(Duration::from_secs(60)).await;
    let told = logs.with(message);
    assert!(
        !told.is_empty() && told.iter().all(|line| line.ends_with(" nodepools=web")),
        "{told:?}"
    );
    let timeouts = simulation.context.metrics.counter(&DISRUPTION_CONSOLIDATION_TIMEOUTS);
    assert!(timeouts.get(&["multi"]) > 1.0 && timeouts.get(&["single"]) > 1.0);
    assert_eq!((simulation.nodes().await.len(), tainted(&simulation).await), (3, 0));
    simulation.change_template("2").await;
    simulation
        .until("drift goes on", 30, async |s| decisions_of(s, "drifted") >= 1.0)
        .await;
    simulation.stop().await;
}

// DIS-019, DIS-084, DIS-124, OPS-162, OPS-163
#[tokio::test(start_paused = true)]
async fn what_budgets_leave_is_shown_while_the_search_rests() {
    // Both budgets leave room for every node: a search that is short of it is not remembered.
    let budgets = json!([{"nodes": "9"}, {"nodes": "8", "schedule": "30 0 * * *", "duration": "1h"}]);
    let simulation = filled(3, "spot", json!({"consolidateAfter": "10s", "budgets": budgets})).await;
    let shown = |s: &Simulation| {
        [&NODEPOOLS_ALLOWED_DISRUPTIONS, &NODEPOOLS_NODES_CONSUMING_BUDGETS]
            .map(|gauge| s.context.metrics.gauge(gauge).get(&["web", "Underutilized"]))
    };
    // Until then a node that is not ready counts as one that starts (docs/deviations.md).
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(shown(&simulation), [9.0, 0.0]);
    let node = name(&simulation.nodes().await[0]);
    for (conduct, away) in [
        (Some("not-ready"), 1.0),
        (None, 0.0),
        (Some("not-ready"), 1.0),
        (None, 0.0),
    ] {
        simulation.sandbox.set_kubelet(&node, conduct).await.expect("set");
        simulation
            .until("the node counts", 30, async |s| shown(s) == [9.0, away])
            .await;
    }
    // The last search found nothing, and nothing changes until the window opens.
    tokio::time::sleep(Duration::from_secs(30)).await;
    let epoch = simulation.context.cluster.consolidation_epoch();
    let opens = "2026-01-01T00:30:00Z".parse().expect("a time");
    tokio::time::sleep(simulation.context.clock.until(opens)).await;
    assert_eq!(shown(&simulation), [9.0, 0.0]);
    simulation
        .until("the window opens", 11, async |s| shown(s) == [8.0, 0.0])
        .await;
    let now = simulation.context.cluster.consolidation_epoch();
    assert_eq!(now, epoch, "nothing called for a search");
    assert_eq!(eligible(&simulation, "underutilized"), 3.0);
    simulation.stop().await;
}
