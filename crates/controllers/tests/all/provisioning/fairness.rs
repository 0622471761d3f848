//! Deadlines: which pods a pass that runs out of time leaves over, and when they are planned.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kerf_api::KwokNodeClass;
use kerf_controllers::Tuning;
use kerf_sandbox::Sandbox;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::provisioning::metric;
use crate::simulation::harness::{Simulation, create, list_in};

/// More than the solver looks at between two looks at its deadline.
const MANY: usize = 400;

async fn pods(simulation: &Simulation, namespace: &str, count: usize, cpu: &str) {
    let api: Api<Pod> = Api::namespaced(simulation.client(), namespace);
    for at in 0..count {
        let pod = json!({"metadata": {"name": format!("{namespace}-{at}")}, "spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]}});
        let pod = serde_json::from_value(pod).expect("a pod");
        api.create(&PostParams::default(), &pod).await.expect("created");
    }
}

// SCH-047, OPS-113: pods that are looked at first, and find no place, use up every deadline; the others have their turn all the same.
#[tokio::test(start_paused = true)]
async fn no_namespace_starves_another_under_a_deadline() {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    create::<KwokNodeClass>(&sandbox.client(), json!({"metadata": {"name": "default"}, "spec": {}})).await;
    for name in ["greedy", "modest"] {
        create::<Namespace>(&sandbox.client(), json!({"metadata": {"name": name}})).await;
    }
    assert_eq!(Tuning::default().deadline, Duration::from_secs(60));
    // Cut short at the first look, since no virtual time passes while the solver works.
    let tuning = Tuning {
        deadline: Duration::ZERO,
        ..Tuning::default()
    };
    let client = sandbox.client();
    let simulation = Simulation::join_tuned(sandbox, client, |_| {}, |provider| provider, tuning);
    simulation.pool("web", json!({})).await;
    // The largest come first.
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
