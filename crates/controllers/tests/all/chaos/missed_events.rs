//! The controllers find out within a minute what their watches did not deliver.

use std::time::Duration;

use kerf_sandbox::faults::FaultPlan;
use serde_json::json;

use crate::chaos::run::{Report, run};
use crate::chaos::scenario::{Kind, LIFE, Policies, Scenario, Stage, Step, Workload};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn web() -> Step {
    Step::Deploy(Workload {
        name: "web".to_owned(),
        kind: Kind::Deployment,
        replicas: 3,
        spec: json!({"containers": [
            {"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "64Mi"}}},
        ]}),
        annotations: json!({}),
        pdb: None,
    })
}

/// A world whose watches lose everything from one time to another.
fn deaf(from: u64, to: u64, steps: Vec<(Duration, Step)>) -> Report {
    let deaf = FaultPlan {
        watch_loss: 1.0,
        ..FaultPlan::default()
    };
    let mut all = vec![
        (seconds(from), Step::Faults(deaf)),
        (seconds(to), Step::Faults(FaultPlan::default())),
    ];
    all.extend(steps);
    all.sort_by_key(|(at, _)| *at);
    let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"});
    let pool = json!({"metadata": {"name": "p0"}, "spec": {
        "template": {"spec": {"requirements": [], "nodeClassRef": class, "expireAfter": "Never"}},
        "disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "100%"}]},
    }});
    let scenario = Scenario {
        seed: 1,
        pools: vec![pool],
        steps: all,
        life: LIFE,
        repair: false,
        retries: true,
        stage: Stage::default(),
        policies: Policies::default(),
    };
    let report = run(&scenario, true);
    assert_eq!(report.violations, [""; 0]);
    report
}

/// When the first line with these words was written, in seconds.
fn when(report: &Report, words: &str) -> f64 {
    let line = report.log.iter().find(|line| line.contains(words));
    let line = line.expect("it happens");
    let time = line.split_whitespace().next().expect("a time");
    time.parse().expect("a number")
}

#[test]
fn pods_nobody_told_of_get_their_nodes() {
    let report = deaf(30, 40, vec![(seconds(35), web())]);
    let launched = when(&report, "Kerf ADDED nodeclaims");
    assert!((40.0..100.0).contains(&launched), "{launched}");
}

#[test]
fn nodes_nobody_needs_any_more_are_found_empty() {
    let report = deaf(330, 340, vec![(seconds(0), web()), (seconds(335), Step::Retire(0))]);
    let gone = when(&report, "was told to end");
    // Found within a minute; then the emptiness is evaluated and validated, and the node is drained.
    assert!((340.0..440.0).contains(&gone), "{gone}");
}
