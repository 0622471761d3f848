//! NodeOverlays behind their gate: when they are evaluated, and that an invalid one does not affect the others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use kerf_api::{Conditioned, KwokNodeClass, NodeOverlay, NodePool, annotations};
use kerf_cloud::{CloudError, CloudProvider, Decorator};
use kerf_model::instance_type::Catalogue;
use kerf_runtime::Options;
use kerf_sandbox::CapturedLog;
use kerf_sandbox::Sandbox;
use kerf_sandbox::faults::FaultPlan;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::provisioning::metric;
use crate::simulation::api_faults::{ApiFaults, CallFault};
use crate::simulation::harness::{Simulation, create, list};

fn gate(options: &mut Options) {
    options.feature_gates.node_overlay = true;
}

async fn sandbox() -> Sandbox {
    let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
    let class = json!({"metadata": {"name": "default"}, "spec": {}});
    create::<KwokNodeClass>(&sandbox.client(), class).await;
    sandbox
}

fn overlay(name: &str, spec: Value) -> Value {
    let mut overlay = json!({"metadata": {"name": name}, "spec": {
        "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}});
    if let Value::Object(spec) = spec {
        for (key, value) in spec {
            overlay["spec"][key] = value;
        }
    }
    overlay
}

const EVALUATIONS: &str = "controller_runtime_reconcile_total{controller=\"nodeoverlay.controller\"";

// SCH-488
#[tokio::test(start_paused = true)]
async fn pools_are_usable_without_any_overlay() {
    let simulation = Simulation::join(sandbox().await, gate);
    simulation.pool("first", json!({})).await;
    simulation.deployment("first", 1, "1", json!({})).await;
    simulation.until_running(1, 60).await;
    // So is a pool that is created later, and one whose class is.
    let later = json!({"template": {"spec": {
        "taints": [{"key": "team", "effect": "NoSchedule"}],
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "late"}}}});
    simulation.pool("second", later).await;
    simulation
        .deployment(
            "second",
            1,
            "1",
            json!({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"karpenter.sh/nodepool": "second"}}),
        )
        .await;
    tokio::time::sleep(Duration::from_secs(20)).await;
    create::<KwokNodeClass>(&simulation.client(), json!({"metadata": {"name": "late"}, "spec": {}})).await;
    simulation.until_running(2, 60).await;
    simulation.stop().await;
}

// SCH-362, SCH-377, LIF-207
#[tokio::test(start_paused = true)]
async fn whatever_changes_is_evaluated_again_and_consolidation_looks_again() {
    let simulation = Simulation::join(sandbox().await, gate);
    simulation.pool("web", json!({})).await;
    create::<NodeOverlay>(
        &simulation.client(),
        overlay("discount", json!({"priceAdjustment": "-10%"})),
    )
    .await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let count = |s: &Simulation| metric::value(s, EVALUATIONS).unwrap_or(0.0);
    let epoch = |s: &Simulation| {
        s.context.cluster.snapshot(s.context.now());
        s.context.cluster.consolidation_epoch()
    };
    let mut last = (count(&simulation), epoch(&simulation));
    assert!(last.0 > 0.0);
    for change in ["overlay", "pool", "class", "nothing"] {
        match change {
            "overlay" => {
                simulation
                    .patch::<NodeOverlay>("discount", json!({"spec": {"priceAdjustment": "-20%"}}))
                    .await;
            }
            "pool" => {
                simulation
                    .patch::<NodePool>("web", json!({"spec": {"weight": 5}}))
                    .await;
            }
            "class" => {
                simulation
                    .patch::<KwokNodeClass>("default", json!({"spec": {"nodeRegistrationDelay": "3s"}}))
                    .await;
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_secs(10)).await;
        let now = (count(&simulation), epoch(&simulation));
        if change == "nothing" {
            assert_eq!(now, last);
        } else {
            assert!(now.0 > last.0 && now.1 > last.1, "{change}: {last:?} {now:?}");
        }
        last = now;
    }
    // A write of the status is no change of the generation.
    let api: kube::Api<NodeOverlay> = kube::Api::all(simulation.client());
    let params = PatchParams::default();
    let status = json!({"metadata": {"labels": {"seen": "yes"}}});
    api.patch("discount", &params, &Patch::Merge(status))
        .await
        .expect("patched");
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(count(&simulation), last.0);
    // Without any change it is done again after six hours.
    tokio::time::sleep(Duration::from_secs(6 * 3600 - 120)).await;
    assert_eq!(count(&simulation), last.0);
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert_eq!(count(&simulation), last.0 + 1.0);
    simulation.stop().await;
}

/// A provider that cannot say which types one pool has.
struct OnePoolFails {
    inner: Arc<dyn CloudProvider>,
    broken: Arc<AtomicBool>,
}

#[async_trait]
impl Decorator for OnePoolFails {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn instance_types(&self, pool: &NodePool) -> Result<Arc<Catalogue>, CloudError> {
        let is_broken = self.broken.load(Ordering::Relaxed) && pool.metadata.name.as_deref() == Some("broken");
        if is_broken {
            return Err(CloudError::other("no types today"));
        }
        self.inner.instance_types(pool).await
    }
}

fn only(pool: &str) -> Value {
    json!({"nodeSelector": {"karpenter.sh/nodepool": pool}})
}

// SCH-375
#[tokio::test(start_paused = true)]
async fn a_pool_whose_types_cannot_be_listed_blocks_no_other() {
    for with_overlays in [true, false] {
        let sandbox = sandbox().await;
        let client = sandbox.client();
        let broken = Arc::new(AtomicBool::new(true));
        let switch = Arc::clone(&broken);
        let change = |options: &mut Options| options.feature_gates.node_overlay = with_overlays;
        let simulation = Simulation::join_around(sandbox, client, change, |inner| {
            Arc::new(OnePoolFails { inner, broken: switch })
        });
        simulation.pool("broken", json!({"weight": 10})).await;
        simulation.pool("fine", json!({})).await;
        simulation.deployment("fine", 1, "1", only("fine")).await;
        simulation.deployment("broken", 1, "1", only("broken")).await;
        simulation.until_running(1, 60).await;
        if with_overlays {
            let failed = format!("{EVALUATIONS},result=\"error\"}}");
            assert!(metric::value(&simulation, &failed).is_some_and(|count| count > 0.0));
        }
        // It heals by itself: the evaluation is retried with backoff.
        broken.store(false, Ordering::Relaxed);
        simulation.until_running(2, 400).await;
        simulation.stop().await;
    }
}

// SCH-376
#[tokio::test(start_paused = true)]
async fn nothing_is_published_before_the_verdicts_are_written() {
    for conflicts in [true, false] {
        let log = CapturedLog::start();
        let sandbox = sandbox().await;
        create::<NodeOverlay>(
            &sandbox.client(),
            overlay("discount", json!({"priceAdjustment": "-10%"})),
        )
        .await;
        let refuses = Arc::new(AtomicBool::new(true));
        let (with_conflicts, faults) = sandbox.client_with_faults("controller");
        let client = if conflicts {
            faults.set(FaultPlan {
                conflict: 1.0,
                ..FaultPlan::default()
            });
            with_conflicts
        } else {
            let switch = Arc::clone(&refuses);
            let api_faults = ApiFaults::new();
            api_faults.rule(move |request| {
                let lost = switch.load(Ordering::Relaxed) && request.uri().path().contains("/nodeoverlays/");
                if lost { CallFault::Lost } else { CallFault::None }
            });
            api_faults.client(&sandbox)
        };
        let simulation = Simulation::join_as(sandbox, client, gate);
        simulation.pool("web", json!({})).await;
        simulation.deployment("web", 1, "1", json!({})).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let usable = |s: &Simulation| {
            s.context
                .cluster
                .snapshot(s.context.now())
                .pools
                .iter()
                .any(|pool| pool.catalogue.is_ok())
        };
        assert!(!usable(&simulation), "conflicts: {conflicts}");
        let failed = format!("{EVALUATIONS},result=\"error\"}}");
        let errors = metric::value(&simulation, &failed).unwrap_or(0.0);
        // A conflict means that what was evaluated is old: that is no error, and is done again at once.
        assert_eq!(errors > 0.0, !conflicts, "{errors}");
        faults.clear();
        refuses.store(false, Ordering::Relaxed);
        simulation.until_running(1, 120).await;
        assert!(usable(&simulation));
        let overlays: Vec<NodeOverlay> = list(&simulation.client()).await;
        assert!(
            overlays
                .iter()
                .all(|overlay| overlay.condition_is_true("ValidationSucceeded"))
        );
        let claim = simulation.claims().await.pop().expect("one");
        let marks = claim.metadata.annotations.unwrap_or_default();
        assert!(
            marks.contains_key(annotations::PRICE_OVERLAY_APPLIED) || marks.contains_key(annotations::NODE_POOL_HASH)
        );
        drop(log);
        simulation.stop().await;
    }
}
