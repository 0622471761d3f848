//! Watches that are late for hours, and ones that lose an event: only the latter are listed anew.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kerf_api::KwokNodeClass;
use kerf_runtime::Seed;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::{FaultPlan, Faults};
use kube::Api;
use kube::api::DeleteParams;
use serde_json::json;
use tokio::time::sleep;

use crate::simulation::harness::{Simulation, create};
use crate::simulation::logs::Logs;

const LISTED_ANEW: &str = "watch lost events";
const HOURS: u64 = 8;

async fn begin(seed: u64) -> (Simulation, Faults) {
    let sandbox = Sandbox::builder().seed(seed).build().await.expect("a sandbox");
    let (client, faults) = sandbox.client_with_faults("controllers");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    create::<KwokNodeClass>(
        &simulation.client(),
        json!({"metadata": {"name": "default"}, "spec": {}}),
    )
    .await;
    let pool = json!({"disruption": {"consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized"}});
    simulation.pool("web", pool).await;
    sleep(Duration::from_secs(30)).await;
    (simulation, faults)
}

/// A pod that exists for a moment: one that a watch check may list and not find again.
async fn brief_pod(simulation: &Simulation, name: &str, life: Duration) {
    let container = json!({"name": "main", "image": "app", "resources": {"requests": {"cpu": "100m"}}});
    let pod = json!({"metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0}});
    let pods: Api<Pod> = Api::namespaced(simulation.client(), "default");
    let pod = serde_json::from_value(pod).expect("a pod");
    pods.create(&kube::api::PostParams::default(), &pod)
        .await
        .expect("created");
    sleep(life).await;
    pods.delete(name, &DeleteParams::default()).await.expect("deleted");
}

#[tokio::test(start_paused = true)]
async fn hours_of_late_watches_are_not_taken_for_lost_events() {
    let (simulation, faults) = begin(11).await;
    let (logs, rng) = (Logs::listen(), Seed(11).rng());
    simulation.deployment("web", 3, "900m", json!({})).await;
    for minute in 0..HOURS * 60 {
        faults.set(FaultPlan {
            watch_lag: Duration::from_millis(rng.below(8_000)),
            ..FaultPlan::default()
        });
        if minute % 5 == 0 {
            let replicas = u32::try_from(rng.below(10)).expect("a small number");
            simulation.scale("web", replicas).await;
        }
        let life = Duration::from_millis(200 + rng.below(9_000));
        brief_pod(&simulation, &format!("brief-{minute}"), life).await;
        sleep(Duration::from_secs(60).saturating_sub(life)).await;
    }
    assert_eq!(logs.with(LISTED_ANEW), [""; 0]);
    assert!(logs.with("launched nodeclaim").len() > 20, "machines come and go");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_lost_among_late_ones_is_found() {
    let (simulation, faults) = begin(12).await;
    let logs = Logs::listen();
    simulation.deployment("web", 3, "900m", json!({})).await;
    simulation.until_running(3, 120).await;
    assert_eq!(logs.with(LISTED_ANEW), [""; 0]);
    faults.set(FaultPlan {
        watch_loss: 1.0,
        watch_loss_of: vec!["pods".to_owned()],
        ..FaultPlan::default()
    });
    simulation.scale("web", 6).await;
    sleep(Duration::from_secs(5)).await;
    faults.set(FaultPlan {
        watch_lag: Duration::from_secs(3),
        ..FaultPlan::default()
    });
    simulation.until_running(6, 180).await;
    assert!(!logs.with(LISTED_ANEW).is_empty());
    simulation.stop().await;
}
