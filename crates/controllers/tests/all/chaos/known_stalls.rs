//! Situations in which autoscalers have stalled before, each as a scenario.

use std::time::Duration;

use serde_json::json;

use crate::chaos::cloud::CloudFaults;
use crate::chaos::run::{Report, run};
use crate::chaos::scenario::{Kind, LIFE, Policies, Scenario, Stage, Step, Workload};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pool(template: &serde_json::Value) -> serde_json::Value {
    let mut spec = json!({
        "requirements": [],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
        "expireAfter": "Never",
    });
    if let (Some(spec), Some(more)) = (spec.as_object_mut(), template.as_object()) {
        spec.extend(more.clone());
    }
    json!({"metadata": {"name": "p0"}, "spec": {
        "template": {"metadata": {"labels": {"team": "p0"}}, "spec": spec},
        "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
    }})
}

fn web(replicas: u64, cpu: &str, annotations: serde_json::Value) -> Step {
    Step::Deploy(Workload {
        name: "web".to_owned(),
        kind: Kind::Deployment,
        replicas,
        spec: json!({"terminationGracePeriodSeconds": 5, "containers": [
            {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}},
        ]}),
        annotations,
        pdb: None,
    })
}

fn scenario(pool: serde_json::Value, steps: Vec<(Duration, Step)>) -> Scenario {
    Scenario {
        seed: 1,
        pools: vec![pool],
        steps,
        life: LIFE,
        repair: false,
        retries: true,
        stage: Stage::default(),
        policies: Policies::default(),
    }
}

fn told(report: &Report, text: &str) -> usize {
    report.log.iter().filter(|line| line.contains(text)).count()
}

/// The launch is answered twice, or its answer is lost, and still one claim has one node.
#[test]
fn one_claim_never_gets_two_nodes() {
    let lost = CloudFaults {
        answer_lost: 0.8,
        ..CloudFaults::default()
    };
    let steps = vec![
        (seconds(0), Step::CloudFaults(lost)),
        (seconds(1), web(6, "3", json!({}))),
        (seconds(300), Step::Crash(seconds(5))),
        (seconds(900), Step::CloudFaults(CloudFaults::default())),
    ];
    let report = run(&scenario(pool(&json!({})), steps), true);
    assert_eq!(report.violations, [""; 0]);
    assert_eq!(
        told(&report, "was launched for"),
        told(&report, "Kerf ADDED nodeclaims")
    );
}

/// Instances that never join are given up after the registration timeout, and the pods get others.
#[test]
fn a_replacement_that_never_registers_is_given_up() {
    let duds = CloudFaults {
        dud: 1.0,
        ..CloudFaults::default()
    };
    let drift = json!({"spec": {"template": {"metadata": {"annotations": {"edition": "2"}}}}});
    let steps = vec![
        (seconds(0), web(3, "3", json!({}))),
        (seconds(300), Step::CloudFaults(duds)),
        (seconds(310), Step::ChangePool(0, drift)),
        (seconds(1800), Step::CloudFaults(CloudFaults::default())),
    ];
    let report = run(&scenario(pool(&json!({})), steps), true);
    assert_eq!(report.violations, [""; 0]);
    assert!(report.quiet_after.is_some());
}

/// There is no capacity for an hour: claims are created and deleted, they do not pile up, and all pods run once capacity is back.
#[test]
fn an_hour_without_capacity_passes() {
    let none = CloudFaults {
        no_capacity: 1.0,
        ..CloudFaults::default()
    };
    let steps = vec![
        (seconds(0), Step::CloudFaults(none)),
        (seconds(1), web(20, "1500m", json!({}))),
        (seconds(3599), Step::CloudFaults(CloudFaults::default())),
    ];
    let report = run(&scenario(pool(&json!({})), steps), true);
    assert_eq!(report.violations, [""; 0]);
    assert!(
        report.quiet_after.is_some_and(|after| after < seconds(300)),
        "{:?}",
        report.quiet_after
    );
}

/// A drifted node with a pod that is never to be disrupted stays; everything else drifts past it.
#[test]
fn a_protected_pod_holds_its_own_node_and_no_other() {
    let drift = json!({"spec": {"template": {"metadata": {"annotations": {"edition": "2"}}}}});
    let protected = Step::Deploy(Workload {
        name: "precious".to_owned(),
        kind: Kind::Deployment,
        replicas: 1,
        spec: json!({"containers": [
            {"name": "main", "image": "app", "resources": {"requests": {"cpu": "15", "memory": "64Mi"}}},
        ]}),
        annotations: json!({"karpenter.sh/do-not-disrupt": "true"}),
        pdb: None,
    });
    let steps = vec![
        (seconds(0), protected),
        (seconds(5), web(4, "12", json!({}))),
        (seconds(600), Step::ChangePool(0, drift)),
    ];
    let report = run(&scenario(pool(&json!({})), steps), true);
    assert_eq!(report.violations, [""; 0]);
    let peace = report
        .log
        .iter()
        .position(|line| line.ends_with("---- peace"))
        .expect("an end");
    let gone = |line: &String| line.contains("DELETED nodes ");
    assert_eq!(
        report.log[..peace].iter().filter(|line| gone(line)).count(),
        4,
        "the others were replaced in time"
    );
    assert_eq!(
        report.log.iter().filter(|line| gone(line)).count(),
        5,
        "and the last once nothing held it"
    );
}

/// So many pods fill a machine of 8 cpu, the cheapest for many: 16 cpu for twice the price hold 40 only.
const PODS_PER_MACHINE: u64 = 22;

/// The controllers start in front of pods that wait: one pass sees them all, each machine is asked for once, and all run soon.
fn pods_at_the_start(machines: usize, life: Duration) {
    let pods = PODS_PER_MACHINE * u64::try_from(machines).expect("few");
    let steps = vec![
        (seconds(0), Step::Crash(seconds(120))),
        (seconds(1), web(pods, "350m", json!({}))),
    ];
    let mut pool = pool(&json!({}));
    pool["metadata"]["annotations"] = json!({"kerf.sh/packing": "cheapest"});
    let mut world = scenario(pool, steps);
    world.stage.delay = Some("10s");
    world.life = life;
    let report = run(&world, true);
    assert_eq!(report.violations, [""; 0]);
    assert_eq!(
        (told(&report, "Kerf ADDED nodeclaims"), report.nodes_max),
        (machines, machines)
    );
    let mut lines = report.log.iter();
    let last = lines.rfind(|line| line.contains(" pods ") && line.contains("phase=Running"));
    let last = last.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(last.is_some_and(|at| at < 180.0), "the last one runs at {last:?} s");
}

#[test]
fn fifteen_hundred_pods_at_the_start_get_their_nodes() {
    pods_at_the_start(68, LIFE);
}

#[test]
fn fifteen_thousand_pods_at_the_start_get_their_nodes() {
    // The hour that follows takes minutes to simulate; the world of fifteen hundred pods lives through it.
    pods_at_the_start(682, seconds(200));
}
