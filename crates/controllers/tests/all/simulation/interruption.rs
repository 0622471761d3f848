//! Interruptions that a cloud announces.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use kerf_api::NodeClaim;
use kerf_cloud::{CloudError, CloudProvider, Decorator, Interruption, InterruptionKind, SignalQueue};
use kerf_kwok::INTERRUPTION;
use kerf_runtime::metrics::catalogue::NODECLAIMS_DISRUPTED;
use kerf_sandbox::faults::{FaultPlan, Faults};
use serde_json::json;
use tokio::time::Instant;

use crate::simulation::harness::{Simulation, create};

/// A cloud with signals a test raises.
struct Announcing {
    inner: Arc<dyn CloudProvider>,
    signals: Arc<SignalQueue>,
}

#[async_trait]
impl Decorator for Announcing {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        &self.inner
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        Ok(self.signals.receive().await)
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        self.signals.acknowledge(handled);
        Ok(())
    }
}

async fn start() -> (Simulation, Arc<SignalQueue>, NodeClaim) {
    let signals = Arc::new(SignalQueue::default());
    let raised = Arc::clone(&signals);
    let simulation = Simulation::start_around(move |inner| Arc::new(Announcing { inner, signals: raised })).await;
    simulation.run_one_pod(json!({}), json!({})).await;
    let claim = simulation.claims().await.pop().expect("a claim");
    (simulation, signals, claim)
}

fn raise(simulation: &Simulation, signals: &SignalQueue, claim: &NodeClaim, kind: InterruptionKind) {
    let id = claim
        .status
        .clone()
        .and_then(|status| status.provider_id)
        .unwrap_or_default();
    signals.raise(kind, [id, "kwok://nobody".to_owned()], simulation.context.clock.now());
}

async fn is_gone(simulation: &Simulation, claim: &NodeClaim) -> bool {
    let claims = simulation.claims().await;
    claims.iter().all(|other| other.metadata.uid != claim.metadata.uid)
}

fn count(simulation: &Simulation, claim: &NodeClaim, reason: &str) -> f64 {
    let labels = claim.metadata.labels.clone().unwrap_or_default();
    let counter = simulation.context.metrics.counter(&NODECLAIMS_DISRUPTED);
    counter.get(&[reason, "web", &labels["karpenter.sh/capacity-type"]])
}

/// Controllers whose cloud announces what is put into the queue, and the faults of their calls.
async fn announced() -> (Simulation, Arc<SignalQueue>, Faults) {
    let signals = Arc::new(SignalQueue::default());
    let raised = Arc::clone(&signals);
    let sandbox = Simulation::start().await.crash().await;
    let (client, faults) = sandbox.client_with_faults("controllers");
    let announcing = move |inner| -> Arc<dyn CloudProvider> { Arc::new(Announcing { inner, signals: raised }) };
    let simulation = Simulation::join_around(sandbox, client, |_| {}, announcing);
    (simulation, signals, faults)
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_acted_on_again_after_an_outage_of_the_api_server() {
    let (simulation, signals, faults) = announced().await;
    simulation.run_one_pod(json!({}), json!({})).await;
    let claim = simulation.claims().await.pop().expect("a claim");
    faults.set(FaultPlan {
        internal: 1.0,
        ..FaultPlan::default()
    });
    raise(&simulation, &signals, &claim, InterruptionKind::SpotReclaim);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!is_gone(&simulation, &claim).await);
    faults.clear();
    simulation
        .until("the claim is gone", 120, async |s| is_gone(s, &claim).await)
        .await;
    simulation.stop().await;
}

/// A cloud that takes a second for each acknowledgement, and fails to be read as often as a test says.
struct Slow {
    announcing: Announcing,
    failures: usize,
    reads: Mutex<Vec<Instant>>,
}

#[async_trait]
impl Decorator for Slow {
    fn inner(&self) -> &Arc<dyn CloudProvider> {
        self.announcing.inner()
    }

    async fn interruptions(&self) -> Result<Vec<Interruption>, CloudError> {
        let count = {
            let mut reads = self.reads.lock().expect("no panic");
            reads.push(Instant::now());
            reads.len()
        };
        if count <= self.failures {
            return Err(CloudError::other("the queue does not exist"));
        }
        Decorator::interruptions(&self.announcing).await
    }

    async fn acknowledge(&self, handled: &Interruption) -> Result<(), CloudError> {
        tokio::time::sleep(Duration::from_secs(1)).await;
        Decorator::acknowledge(&self.announcing, handled).await
    }
}

async fn slow(failures: usize) -> (Simulation, Arc<SignalQueue>, Arc<Slow>) {
    let signals = Arc::new(SignalQueue::default());
    let (raised, mut made) = (Arc::clone(&signals), None);
    let wrap = |inner| -> Arc<dyn CloudProvider> {
        let announcing = Announcing { inner, signals: raised };
        let slow = Arc::new(Slow {
            announcing,
            failures,
            reads: Mutex::default(),
        });
        made = Some(Arc::clone(&slow));
        slow
    };
    let simulation = Simulation::start_around(wrap).await;
    (simulation, signals, made.expect("a cloud"))
}

// AWS-301
#[tokio::test(start_paused = true)]
async fn ten_signals_are_handled_at_the_same_time() {
    let (simulation, signals, cloud) = slow(0).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    let (start, now) = (Instant::now(), simulation.context.clock.now());
    for number in 0..20 {
        let nobody = [format!("kwok://nobody-{number}")];
        signals.raise(InterruptionKind::SpotReclaim, nobody, now);
    }
    let before = cloud.reads.lock().expect("no panic").len();
    simulation
        .until("the next signals are read", 30, async |_| {
            cloud.reads.lock().expect("no panic").len() > before
        })
        .await;
    let took = start.elapsed().as_secs_f64();
    assert!((2.0..4.0).contains(&took), "20 signals of a second each took {took} s");
    let left = tokio::time::timeout(Duration::from_secs(60), signals.receive()).await;
    assert!(left.is_err(), "all are acknowledged: {left:?}");
    simulation.stop().await;
}

// AWS-302
#[tokio::test(start_paused = true)]
async fn a_queue_that_cannot_be_read_is_asked_less_and_less_often() {
    let (simulation, _, cloud) = slow(16).await;
    tokio::time::sleep(Duration::from_secs(300)).await;
    let reads = cloud.reads.lock().expect("no panic").clone();
    let pauses = reads.windows(2).map(|pair| pair[1] - pair[0]);
    let expected = (0..16).map(|failure| Duration::from_millis(5 * (1 << failure)).min(Duration::from_secs(30)));
    assert_eq!(pauses.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_signal_about_a_claim_that_the_watch_has_not_delivered_has_its_effect() {
    let (simulation, signals, faults) = announced().await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    faults.set(FaultPlan {
        watch_loss: 1.0,
        ..FaultPlan::default()
    });
    let of = |name: &str, group: &str| {
        json!({"metadata": {"name": name}, "spec": {"requirements": [],
            "nodeClassRef": {"group": group, "kind": "KWOKNodeClass", "name": "default"}}})
    };
    for (name, group) in [("unheard", "karpenter.kwok.sh"), ("foreign", "example.com")] {
        create::<NodeClaim>(&simulation.client(), of(name, group)).await;
        let status = kube::api::Patch::Merge(json!({"status": {"providerID": format!("kwok://{name}")}}));
        let api = kube::Api::<NodeClaim>::all(simulation.client());
        api.patch_status(name, &kube::api::PatchParams::default(), &status)
            .await
            .expect("patched");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    faults.clear();
    assert!(
        simulation.context.cluster.claim("unheard").is_none(),
        "no watch delivered it"
    );
    let ids = ["kwok://unheard".to_owned(), "kwok://foreign".to_owned()];
    signals.raise(InterruptionKind::SpotReclaim, ids, simulation.context.clock.now());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let left = simulation.claims().await;
    let names: Vec<_> = left.iter().filter_map(|claim| claim.metadata.name.as_deref()).collect();
    assert_eq!(names, ["foreign"], "a claim of another provider is left alone");
    let again = tokio::time::timeout(Duration::from_secs(60), signals.receive()).await;
    assert!(again.is_err(), "the signal is acknowledged: {again:?}");
    simulation.stop().await;
}

// AWS-318
#[tokio::test(start_paused = true)]
async fn a_deadline_that_is_there_stays() {
    let (simulation, signals, claim) = start().await;
    let name = claim.metadata.name.as_deref().unwrap_or_default();
    let key = "karpenter.sh/nodeclaim-termination-timestamp";
    let later = "2099-01-01T00:00:00Z";
    let annotation = json!({"metadata": {"annotations": {key: later}}});
    simulation.patch::<NodeClaim>(name, annotation).await;
    let finalizer = json!({"metadata": {"finalizers": ["karpenter.sh/termination", "example.com/hold"]}});
    simulation.patch::<NodeClaim>(name, finalizer).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    raise(&simulation, &signals, &claim, InterruptionKind::SystemUnhealthy);
    tokio::time::sleep(Duration::from_secs(30)).await;
    let left = simulation.current_claim(&claim).await.expect("the claim is held");
    assert!(left.metadata.deletion_timestamp.is_some());
    let annotations = left.metadata.annotations.unwrap_or_default();
    assert_eq!(annotations.get(key).map(String::as_str), Some(later));
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_reclaimed_instance_is_drained_before_it_goes() {
    let (simulation, signals, claim) = start().await;
    raise(&simulation, &signals, &claim, InterruptionKind::SpotReclaim);
    simulation
        .until("another node runs the pod", 120, async |s| {
            is_gone(s, &claim).await && s.running().await == 1
        })
        .await;
    assert_eq!(count(&simulation, &claim, "spot_interrupted"), 1.0);
    // One on the claim, one on the Node.
    assert_eq!(simulation.events("SpotInterrupted").await.len(), 2);
    assert_eq!(simulation.events("Evicted").await.len(), 1);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn advice_is_told_and_nothing_else() {
    let (simulation, signals, claim) = start().await;
    raise(&simulation, &signals, &claim, InterruptionKind::RebalanceRecommendation);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert!(!is_gone(&simulation, &claim).await);
    assert_eq!(simulation.events("SpotRebalanceRecommendation").await.len(), 2);
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unwell_instance_does_not_wait_for_protected_pods() {
    let (simulation, signals, claim) = start().await;
    let pod = simulation
        .pods()
        .await
        .pop()
        .and_then(|pod| pod.metadata.name)
        .unwrap_or_default();
    let api: kube::Api<k8s_openapi::api::core::v1::Pod> = kube::Api::namespaced(simulation.client(), "default");
    let protect = json!({"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}});
    let protect = kube::api::Patch::Merge(protect);
    api.patch(&pod, &kube::api::PatchParams::default(), &protect)
        .await
        .expect("patched");
    raise(&simulation, &signals, &claim, InterruptionKind::InstanceUnhealthy);
    simulation
        .until("the node is gone", 60, async |s| is_gone(s, &claim).await)
        .await;
    assert_eq!(count(&simulation, &claim, "instance_status"), 1.0);
    simulation.stop().await;
}

async fn annotate(simulation: &Simulation, node: &str, value: &str) {
    let annotation = json!({"metadata": {"annotations": {INTERRUPTION: value}}});
    simulation.patch::<Node>(node, annotation).await;
}

#[tokio::test(start_paused = true)]
async fn anybody_can_play_the_cloud_by_annotating_a_node() {
    let simulation = Simulation::start().await;
    simulation.populate(2, json!({})).await;
    let (claims, nodes) = (simulation.claims().await, simulation.nodes().await);
    let node = |claim: &NodeClaim| claim.status.as_ref().and_then(|status| status.node_name.clone());
    let (advised, reclaimed) = (&claims[0], &claims[1]);
    // Advice is reported and has no other effect; what is announced again is reported again.
    let first = node(advised).expect("a node");
    for times in [2, 4] {
        annotate(&simulation, &first, "rebalance_recommendation").await;
        let told = async |s: &Simulation| {
            let counts = s.events("SpotRebalanceRecommendation").await;
            counts.iter().map(|event| event.count.unwrap_or(1)).sum::<i32>() == times
        };
        simulation.until("it is told", 10, told).await;
        let taken = async |s: &Simulation| {
            let nodes = s.nodes().await;
            let mut annotations = nodes.iter().filter_map(|node| node.metadata.annotations.as_ref());
            !annotations.any(|annotations| annotations.contains_key(INTERRUPTION))
        };
        simulation.until("the annotation is taken off", 10, taken).await;
        // The same event is not published more often than every two minutes (OPS-182).
        tokio::time::sleep(Duration::from_secs(121)).await;
    }
    assert!(!is_gone(&simulation, advised).await);
    // An annotation that names no interruption has no effect.
    annotate(&simulation, &first, "full_moon").await;
    annotate(&simulation, &node(reclaimed).expect("a node"), "spot_interrupted").await;
    simulation
        .until("another node runs the pod", 120, async |s| {
            is_gone(s, reclaimed).await && s.running().await == 2
        })
        .await;
    assert_eq!(count(&simulation, reclaimed, "spot_interrupted"), 1.0);
    assert!(!is_gone(&simulation, advised).await);
    assert_eq!(simulation.nodes().await.len(), nodes.len());
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_announcement_outlives_the_controllers() {
    let simulation = Simulation::start().await;
    simulation.populate(1, json!({})).await;
    let claim = simulation.claims().await.remove(0);
    let node = claim
        .status
        .as_ref()
        .and_then(|status| status.node_name.clone())
        .expect("a node");
    let sandbox = simulation.crash().await;
    let annotation = json!({"metadata": {"annotations": {INTERRUPTION: "instance_terminated"}}});
    let api: kube::Api<Node> = kube::Api::all(sandbox.client());
    api.patch(
        &node,
        &kube::api::PatchParams::default(),
        &kube::api::Patch::Merge(annotation),
    )
    .await
    .expect("patched");
    let simulation = Simulation::join(sandbox, |_| {});
    simulation
        .until("another node runs the pod", 120, async |s| {
            is_gone(s, &claim).await && s.running().await == 1
        })
        .await;
    simulation.stop().await;
}
