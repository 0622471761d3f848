//! Deadlines: which pods a pass that runs out of time leaves over, and when they are planned.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Namespace, Pod};
use kerf_api::KwokNodeClass;
use kerf_controllers::Tuning;
use kerf_sandbox::{CapturedLog, Sandbox};
use kerf_testkit::objects;
use serde_json::json;

use crate::objects::create_in;
use crate::provisioning::metric;
use crate::simulation::harness::{Simulation, create, list_in};

/// More pods than the solver places between two checks of its deadline.
const MANY: usize = 400;

async fn pods(simulation: &Simulation, namespace: &str, count: usize, cpu: &str) {
    for at in 0..count {
        let pod = objects::pod(&format!("{namespace}-{at}"), cpu);
        create_in::<Pod>(&simulation.client(), namespace, pod).await;
    }
}

/// Controllers whose every pass ends at its first check of the deadline, since no virtual time passes while the solver works.
async fn without_time(namespaces: &[&str]) -> Simulation {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    create::<KwokNodeClass>(&sandbox.client(), json!({"metadata": {"name": "default"}, "spec": {}})).await;
    for name in namespaces {
        create::<Namespace>(&sandbox.client(), json!({"metadata": {"name": name}})).await;
    }
    let tuning = Tuning {
        deadline: Duration::ZERO,
        ..Tuning::default()
    };
    let client = sandbox.client();
    Simulation::join_tuned(sandbox, client, |_| {}, |provider| provider, tuning)
}

// SCH-339, SCH-355: a pod that a pass did not reach is named by no event, only the log counts the pass.
#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_pods_that_a_pass_did_not_reach() {
    let log = CapturedLog::start();
    let simulation = without_time(&["greedy"]).await;
    simulation.pool("web", json!({})).await;
    pods(&simulation, "greedy", MANY, "1000").await;
    let timed_out = || log.lines("scheduling simulation timed out");
    simulation
        .until("a pass runs out of time", 60, async |_| !timed_out().is_empty())
        .await;
    // Less than a batch window, so that no second pass begins.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let [line] = &timed_out()[..] else {
        panic!("one pass: {:?}", timed_out());
    };
    assert_eq!(line["level"], "DEBUG");
    assert!(
        !line["duration"].is_null() && line["scheduling-id"].as_str().is_some_and(|id| !id.is_empty()),
        "{line}"
    );
    let reached = |name: &str| {
        let time = simulation
            .context
            .cluster
            .with_times(|times| times.get("greedy", name).cloned());
        time.is_some_and(|time| time.decided.is_some())
    };
    let events: Vec<Event> = list_in(&simulation.client(), "greedy").await;
    let ours = events
        .iter()
        .filter(|event| event.source.as_ref().and_then(|source| source.component.as_deref()) == Some("karpenter"));
    let told: BTreeSet<&str> = ours.filter_map(|event| event.involved_object.name.as_deref()).collect();
    let all: Vec<Pod> = list_in(&simulation.client(), "greedy").await;
    let names: Vec<String> = all.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    let expected: BTreeSet<&str> = names.iter().map(String::as_str).filter(|name| reached(name)).collect();
    assert!(
        !expected.is_empty() && expected.len() < MANY,
        "{} pods were reached",
        expected.len()
    );
    assert_eq!(told, expected);
    simulation.stop().await;
}

// SCH-047, OPS-113: pods that are tried first, and find no place, use up every deadline; the others have their turn all the same.
#[tokio::test(start_paused = true)]
async fn no_namespace_starves_another_under_a_deadline() {
    assert_eq!(Tuning::default().deadline, Duration::from_secs(60));
    let simulation = without_time(&["greedy", "modest"]).await;
    simulation.pool("web", json!({})).await;
    // The largest pods are tried first.
    pods(&simulation, "greedy", MANY, "1000").await;
    pods(&simulation, "modest", 3, "1").await;
    simulation
        .until("the modest run", 120, async |s| {
            let pods: Vec<Pod> = list_in(&s.client(), "modest").await;
            let running =
                |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
            pods.iter().filter(running).count() == 3
        })
        .await;
    // A pass was cut short, and everybody was attempted within the next.
    let decided = |namespace: &str, at: usize| {
        let times = |times: &kerf_state::PodTimes| times.get(namespace, &format!("{namespace}-{at}")).cloned();
        simulation
            .context
            .cluster
            .with_times(times)
            .and_then(|time| time.decided)
    };
    let mut passes: Vec<_> = (0..MANY)
        .map(|at| decided("greedy", at).expect("it was attempted"))
        .collect();
    passes.sort_unstable();
    passes.dedup();
    assert!(passes.len() > 1, "one pass reached them all");
    let modest = (0..3).map(|at| decided("modest", at)).max().flatten();
    assert!(modest <= passes.get(1).copied(), "{modest:?} {passes:?}");
    let unfinished = metric::value(&simulation, "karpenter_scheduler_unschedulable_pods_count");
    assert!(unfinished.is_some_and(|left| left > 0.0));
    simulation.stop().await;
}
