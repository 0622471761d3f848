//! Planning goes on while claims launch, and plans nothing twice.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kerf_api::KwokNodeClass;
use kerf_cloud::Fault;
use kerf_controllers::{Election, Manager, ManagerConfig, Tuning};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::{CancellationToken, Metrics, Options, Seed};
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::FaultPlan;
use kube::Client;
use serde_json::json;
use tokio::time::Instant;

use crate::simulation::harness::{Simulation, create};

/// Pods of which a machine holds one.
fn alone(app: &str) -> serde_json::Value {
    json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

async fn seen_until(simulation: &Simulation, running: usize, seconds: u64) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(seconds);
    loop {
        let claims = simulation.claims().await;
        seen.extend(claims.into_iter().filter_map(|claim| claim.metadata.name));
        if simulation.running().await == running {
            return seen;
        }
        assert!(
            Instant::now() < end,
            "{running} pods do not run\n{}",
            simulation.picture().await
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

// SCH-468: a batch that closes while claims are not launched is planned, not dropped.
#[tokio::test(start_paused = true)]
async fn slow_launches_delay_only_their_own_pods() {
    let slow = Fault::Slow(Duration::from_secs(200));
    let simulation = Simulation::with_faulty_launches([slow; 3]).await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("first", 3, "100m", alone("first")).await;
    simulation.until_claims(3, 60).await;
    for (at, app) in ["second", "third", "fourth"].into_iter().enumerate() {
        simulation.deployment(app, 2, "100m", alone(app)).await;
        simulation
            .until("others run meanwhile", 60, async |s| s.running().await > at)
            .await;
    }
    let seen = seen_until(&simulation, 9, 600).await;
    // Machines that are being launched are full; two more hold all pods created meanwhile.
    assert!(seen.len() <= 5, "{seen:?}");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn pods_of_failed_launches_are_planned_again_and_only_those() {
    let faults = [Fault::InsufficientCapacity; 5];
    let simulation = Simulation::with_faulty_launches(faults).await;
    simulation.pool("web", json!({})).await;
    simulation.deployment("web", 3, "1", alone("web")).await;
    let seen = seen_until(&simulation, 3, 300).await;
    assert_eq!(simulation.claims().await.len(), 3, "{seen:?}");
    // Every claim beyond the first three replaces one that failed.
    assert!(seen.len() <= 3 + faults.len(), "{seen:?}");
    simulation.stop().await;
}

// SCH-044, SCH-468
#[tokio::test(start_paused = true)]
async fn a_controller_that_knows_no_promise_waits_for_the_launch() {
    let before = Simulation::with_faulty_launches([Fault::Slow(Duration::from_secs(600))]).await;
    before.pool("web", json!({})).await;
    before.deployment("first", 1, "1", json!({})).await;
    before.until_claims(1, 30).await;
    let sandbox = before.crash().await;
    // Its launch takes a minute in the next life too.
    let (client, faults) = sandbox.client_with_faults("controller");
    let simulation = Simulation::join_as(sandbox, client, |_| {});
    drop(faults);
    simulation.deployment("second", 1, "1", alone("second")).await;
    let seen = seen_until(&simulation, 2, 120).await;
    assert!(seen.len() <= 2, "{seen:?}");
    simulation.stop().await;
}

/// A process that leads when it can.
fn candidate(sandbox: &Sandbox, client: Client, name: &str) -> (tokio::task::JoinHandle<()>, CancellationToken) {
    candidate_counting(sandbox, client, name, Metrics::default())
}

/// The same, with metrics.
fn candidate_counting(
    sandbox: &Sandbox,
    client: Client,
    name: &str,
    metrics: Metrics,
) -> (tokio::task::JoinHandle<()>, CancellationToken) {
    let interner = Arc::new(Interner::default());
    let provider = KwokProvider::new(sandbox.client(), Arc::clone(&interner), builtin_catalogue(&interner));
    let manager = Manager::new(ManagerConfig {
        provider: Arc::new(provider),
        election: Some(Election {
            client: client.clone(),
            config: ElectionConfig::new("karpenter-leader-election", "default", name),
        }),
        client,
        options: Options::default(),
        clock: sandbox.clock().clone(),
        seed: Seed(7).derive(name),
        interner,
        metrics,
        listen: false,
        tuning: Tuning::default(),
    });
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    let task = tokio::spawn(async move {
        // Losing the lease ends a process; that is no failure here.
        let _ = manager.run(token).await;
    });
    (task, shutdown)
}

#[tokio::test(start_paused = true)]
async fn a_change_of_leaders_while_machines_start_plans_nothing_twice() {
    for crash_after in [1, 2, 3, 5, 8, 13, 21] {
        let sandbox = Sandbox::builder().seed(crash_after).build().await.expect("a sandbox");
        let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "10s"}});
        create::<KwokNodeClass>(&sandbox.client(), class).await;
        let (first, _) = candidate(&sandbox, sandbox.client(), "first");
        // A process that observed from the beginning leads when the first is gone.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (second, shutdown) = candidate(&sandbox, sandbox.client(), "second");
        let observer = Observer(sandbox);
        observer.deploy().await;
        tokio::time::sleep(Duration::from_secs(crash_after)).await;
        first.abort();
        let _ = first.await;
        let seen = observer.seen_until_running(3, 300).await;
        assert_eq!(seen.len(), 3, "crash after {crash_after} s: {seen:?}");
        shutdown.cancel();
        let _ = second.await;
    }
}

// OPS-057: a process that waited to lead lists what only leaders write before its controllers start (docs/deviations.md).
#[tokio::test(start_paused = true)]
async fn a_new_leader_that_heard_of_no_claims_makes_none_again() {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": "10s"}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    let (first, _) = candidate(&sandbox, sandbox.client(), "first");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (client, faults) = sandbox.client_with_faults("second");
    let (second, shutdown) = candidate(&sandbox, client, "second");
    // Its watch check has just compared, and will again after the change of leaders only.
    tokio::time::sleep(Duration::from_secs(46)).await;
    faults.set(FaultPlan {
        watch_loss: 1.0,
        watch_loss_of: vec!["nodeclaims".to_owned(), "nodes".to_owned()],
        ..FaultPlan::default()
    });
    let observer = Observer(sandbox);
    observer.deploy().await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    first.abort();
    let _ = first.await;
    let seen = observer.seen_until_running(3, 300).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    shutdown.cancel();
    let _ = second.await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stands_by_piles_nothing_up() {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    let (first, _) = candidate(&sandbox, sandbox.client(), "first");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let metrics = Metrics::default();
    let (second, shutdown) = candidate_counting(&sandbox, sandbox.client(), "second", metrics.clone());
    let observer = Observer(sandbox);
    observer.deploy().await;
    observer.seen_until_running(3, 300).await;
    let added = || {
        let text = metrics.encode();
        let lines = text.lines().filter(|line| line.starts_with("workqueue_adds_total{"));
        let counts: Vec<f64> = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
        assert!(!counts.is_empty());
        counts.iter().sum::<f64>()
    };
    assert_eq!(added(), 0.0);
    first.abort();
    let _ = first.await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(added() > 0.0, "it leads now");
    shutdown.cancel();
    let _ = second.await;
}

/// Observes a cluster without controllers of its own.
struct Observer(Sandbox);

impl Observer {
    async fn deploy(&self) {
        let pool = json!({"metadata": {"name": "web"}, "spec": {"template": {"spec": {
            "requirements": [], "expireAfter": "Never",
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}},
            "disruption": {"consolidateAfter": "Never"}}});
        create::<kerf_api::NodePool>(&self.0.client(), pool).await;
        let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {
                "affinity": alone("web")["affinity"],
                "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}}}});
        let api: kube::Api<k8s_openapi::api::apps::v1::Deployment> = kube::Api::namespaced(self.0.client(), "default");
        let deployment = serde_json::from_value(deployment).expect("a deployment");
        api.create(&kube::api::PostParams::default(), &deployment)
            .await
            .expect("created");
    }

    async fn seen_until_running(&self, running: usize, seconds: u64) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let claims: Vec<kerf_api::NodeClaim> = crate::simulation::harness::list(&self.0.client()).await;
            seen.extend(claims.into_iter().filter_map(|claim| claim.metadata.name));
            let pods: Vec<k8s_openapi::api::core::v1::Pod> =
                crate::simulation::harness::list_in(&self.0.client(), "default").await;
            let runs = |pod: &&k8s_openapi::api::core::v1::Pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            };
            if pods.iter().filter(runs).count() == running {
                return seen;
            }
            assert!(Instant::now() < end, "{running} pods do not run: {seen:?}");
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }
}
