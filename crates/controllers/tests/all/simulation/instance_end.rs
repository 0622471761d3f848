//! How long an instance may take to terminate, and the metrics about it.

use std::ops::RangeInclusive;
use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim};
use serde_json::json;

use crate::simulation::finalizing::with_one_pod;
use crate::simulation::harness::{Simulation, create, name};
use crate::simulation::logs::Logs;
use crate::simulation::scripted_cloud::{Call, Script, scripted};

/// A claim without a pool whose node does not register.
async fn with_an_absent_node() -> (Simulation, Script, NodeClaim) {
    let (simulation, script) = scripted().await;
    simulation.slow_class("1h").await;
    let spec = json!({
        "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c-1x-amd64-linux"]}],
    });
    create::<NodeClaim>(
        &simulation.client(),
        json!({"metadata": {"name": "early"}, "spec": spec}),
    )
    .await;
    let launched = async |s: &Simulation| s.claims().await[0].condition_is_true("Launched");
    simulation.until("it is launched", 30, launched).await;
    let claim = simulation.claims().await.remove(0);
    (simulation, script, claim)
}

/// Deletes a claim whose instance takes a minute to end, and observes it.
async fn end_slowly(simulation: &Simulation, script: &Script, claim: &NodeClaim) {
    script.linger();
    simulation.delete::<NodeClaim>(&name(claim)).await;
    let ends = async |s: &Simulation| {
        let claim = s.current_claim(claim).await;
        claim.expect("it waits").condition_is_true("InstanceTerminating")
    };
    simulation.until("its instance ends", 30, ends).await;
    // API-116
    let ending = simulation.current_claim(claim).await.expect("it waits");
    let condition = ending.condition("InstanceTerminating").expect("it was set");
    assert_eq!((condition.reason(), condition.message()), ("InstanceTerminating", ""));
    tokio::time::sleep(Duration::from_secs(60)).await;
    let waiting = simulation.current_claim(claim).await.expect("it waits");
    assert_eq!(
        waiting.metadata.finalizers,
        Some(vec!["karpenter.sh/termination".to_owned()])
    );
    let times = script.times(Call::Delete);
    // The first attempts may be joined by one for the claim's own change.
    let pauses = times.windows(2).map(|pair| pair[1] - pair[0]).skip(1);
    let pauses: Vec<f64> = pauses.collect();
    assert!(
        pauses.len() >= 10 && pauses.iter().all(|pause| (4.9..5.5).contains(pause)),
        "{pauses:?}"
    );
    script.heal(Call::Delete);
    simulation
        .until("it is gone", 15, async |s| s.current_claim(claim).await.is_none())
        .await;
}

/// Asserts that a duration of a pool was measured once, and how many seconds it was.
fn measured(simulation: &Simulation, family: &str, pool: &str, seconds: RangeInclusive<f64>) {
    let metrics = simulation.context.metrics.encode();
    let value = |part: &str| {
        let series = format!("{family}_{part}{{nodepool=\"{pool}\"}} ");
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(&series)?.parse::<f64>().ok())
    };
    assert_eq!(value("count"), Some(1.0), "{family}");
    let sum = value("sum").expect("a sum");
    assert!(seconds.contains(&sum), "{family}: {sum}");
}

const OF_INSTANCE: &str = "karpenter_nodeclaims_instance_termination_duration_seconds";
const OF_CLAIM: &str = "karpenter_nodeclaims_termination_duration_seconds";
const OF_NODE: &str = "karpenter_nodes_termination_duration_seconds";

// LIF-074, LIF-075, LIF-079, LIF-092, LIF-093
#[tokio::test(start_paused = true)]
async fn the_end_of_an_instance_is_awaited_before_node_and_claim_go() {
    let (simulation, script, claim, _) = with_one_pod(json!({}), json!({})).await;
    let logs = Logs::listen();
    end_slowly(&simulation, &script, &claim).await;
    let told = logs.with("deleted nodeclaim");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].starts_with("INFO ") && told[0].contains(&name(&claim)),
        "{told:?}"
    );
    let metrics = simulation.context.metrics.encode();
    let family = format!("{OF_CLAIM}_bucket{{");
    let buckets: Vec<&str> = metrics.lines().filter(|line| line.starts_with(&family)).collect();
    for power in 0..12 {
        let bucket = format!("{OF_CLAIM}_bucket{{nodepool=\"web\",le=\"{}\"}} ", 1 << power);
        assert!(
            buckets.iter().any(|line| line.starts_with(&bucket)),
            "{bucket} {buckets:?}"
        );
    }
    assert_eq!(buckets.len(), 13);
    let terminated = "karpenter_nodeclaims_terminated_total{";
    assert_eq!(
        metrics
            .lines()
            .filter(|line| line.starts_with(terminated) && line.ends_with(" 1"))
            .count(),
        1
    );
    assert_eq!(simulation.nodes().await.len(), 1, "the pod has another");
    measured(&simulation, OF_INSTANCE, "web", 60.0..=70.0);
    // The time of the drain is added.
    measured(&simulation, OF_CLAIM, "web", 65.0..=80.0);
    measured(&simulation, OF_NODE, "web", 65.0..=80.0);
    simulation.stop().await;
}

// LIF-074, LIF-075, LIF-079
#[tokio::test(start_paused = true)]
async fn the_end_of_an_instance_that_never_registered_is_awaited_too() {
    let (simulation, script, claim) = with_an_absent_node().await;
    end_slowly(&simulation, &script, &claim).await;
    measured(&simulation, OF_INSTANCE, "", 60.0..=70.0);
    measured(&simulation, OF_CLAIM, "", 60.0..=70.0);
    simulation.stop().await;
}

// LIF-074, LIF-075: with such a provider nothing else would ever be measured.
#[tokio::test(start_paused = true)]
async fn an_instance_that_is_gone_at_once_is_measured_too() {
    let (drained, _, registered, _) = with_one_pod(json!({}), json!({})).await;
    let (absent, _, unregistered) = with_an_absent_node().await;
    for (simulation, claim, pool) in [(drained, registered, "web"), (absent, unregistered, "")] {
        simulation.delete::<NodeClaim>(&name(&claim)).await;
        simulation.until_claim_gone(&claim, 60).await;
        measured(&simulation, OF_INSTANCE, pool, 0.0..=2.0);
        simulation.stop().await;
    }
}
