//! Over long random workloads consolidation never returns to an earlier state, and never replaces a node at the same cost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kerf_api::{Conditioned, NodeClaim};
use kerf_model::price::Price;
use kerf_runtime::Seed;
use serde_json::json;
use tokio::time::Instant;

use crate::simulation::consolidation::pool;
use crate::simulation::harness::Simulation;

/// How long the cluster must be left alone before it may not change any more.
const QUIET: Duration = Duration::from_secs(15 * 60);

fn text<'a>(claim: &'a NodeClaim, key: &str) -> &'a str {
    let labels = claim.metadata.labels.as_ref();
    labels.and_then(|labels| labels.get(key)).map_or("", String::as_str)
}

/// What the machines cost by the snapshot decisions are made from.
fn prices(simulation: &Simulation) -> BTreeMap<String, Price> {
    let snapshot = simulation.context.cluster.snapshot(simulation.context.now());
    let managed = snapshot.nodes.iter().filter(|node| node.managed);
    let priced = managed.filter_map(|node| Some((node.claim_name.as_deref()?.to_owned(), node.price?)));
    priced.collect()
}

/// The machines by type, zone and capacity type.
async fn state(simulation: &Simulation) -> Vec<String> {
    let claims = simulation.claims().await;
    let mut kinds: Vec<String> = claims
        .iter()
        .map(|claim| {
            let keys = [
                "node.kubernetes.io/instance-type",
                "topology.kubernetes.io/zone",
                "karpenter.sh/capacity-type",
            ];
            keys.map(|key| text(claim, key)).join("/")
        })
        .collect();
    kinds.sort();
    kinds
}

/// The claims that were launched in place of others.
async fn replacements(simulation: &Simulation) -> BTreeSet<String> {
    let events = simulation.events("DisruptionLaunching").await;
    let names = events.into_iter().filter_map(|event| event.involved_object.name);
    names.collect()
}

/// While the workload stays as it is, watches every creation and deletion of a machine until nothing changes any more. Returns how often a machine
/// was needed for pods that the scheduler did not put where the decision had them: after such a step the other machines may cost as much as before.
async fn settle(simulation: &Simulation) -> usize {
    let (mut seen, mut last) = (BTreeSet::new(), Vec::new());
    let (mut names, mut displaced) = (BTreeSet::new(), 0);
    let mut known: BTreeMap<String, Price> = BTreeMap::new();
    let mut cost: Option<Price> = None;
    let mut quiet = Instant::now();
    let begun = Instant::now();
    while quiet.elapsed() < QUIET {
        assert!(
            begun.elapsed() < Duration::from_secs(4 * 3600),
            "it does not come to rest: {}",
            simulation.picture().await
        );
        known.extend(prices(simulation));
        let claims = simulation.claims().await;
        // Only what is neither on its way in nor out says what was decided.
        let still = |claim: &NodeClaim| {
            claim.metadata.deletion_timestamp.is_none()
                && claim.condition_is_true("Initialized")
                && claim.condition("DisruptionReason").is_none()
        };
        if claims.iter().all(still) {
            let now = state(simulation).await;
            if now != last {
                assert!(seen.insert(now.clone()), "back to where it was: {now:?}");
                let before = std::mem::take(&mut names);
                names.extend(claims.iter().filter_map(|claim| claim.metadata.name.clone()));
                let planned = replacements(simulation).await;
                let for_displaced: Vec<&String> = names
                    .difference(&before)
                    .filter(|name| !planned.contains(*name))
                    .collect();
                let is_displaced = cost.is_some() && !for_displaced.is_empty();
                displaced += usize::from(is_displaced);
                let price_of = |name: &String| known.get(name).copied();
                let total: Price = names.iter().filter_map(price_of).sum();
                let decided: Price = names
                    .iter()
                    .filter(|name| !for_displaced.contains(name))
                    .filter_map(price_of)
                    .sum();
                assert!(
                    cost.is_none_or(|before| decided < before || (is_displaced && decided == before)),
                    "{decided} of {total} per hour after {cost:?}: {now:?} after {last:?}\n{}",
                    simulation.picture().await
                );
                (last, cost, quiet) = (now, Some(total), Instant::now());
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
    displaced
}

async fn live(seed: u64, capacity: &str) {
    let rng = Seed(seed).derive("workloads").rng();
    let simulation = Simulation::start_with(|options| {
        options.feature_gates.spot_to_spot_consolidation = true;
    })
    .await;
    let disruption = json!({"consolidateAfter": "30s", "budgets": [{"nodes": "100%"}]});
    pool(&simulation, capacity, disruption).await;
    let sizes = ["250m", "700m", "1", "1500m", "3"];
    for (number, size) in sizes.iter().enumerate() {
        simulation.deployment(&format!("w{number}"), 0, size, json!({})).await;
    }
    let mut displaced = 0;
    for _ in 0..6 {
        let mut wanted = 0;
        for number in 0..sizes.len() {
            let replicas = u32::try_from(rng.below(9)).expect("few");
            wanted += replicas as usize;
            simulation.scale(&format!("w{number}"), replicas).await;
        }
        simulation
            .until("all run", 300, async |s| {
                s.running().await == wanted && s.pods().await.len() == wanted
            })
            .await;
        // Launches that provisioning began are no moves of consolidation.
        tokio::time::sleep(Duration::from_secs(25)).await;
        displaced += settle(&simulation).await;
        assert_eq!(simulation.running().await, wanted);
    }
    assert!(displaced <= 2, "{displaced} machines for displaced pods");
    simulation.stop().await;
}

#[tokio::test(start_paused = true)]
async fn consolidation_only_ever_gets_cheaper_on_demand() {
    for seed in 1..3 {
        live(seed, "on-demand").await;
    }
}

#[tokio::test(start_paused = true)]
async fn consolidation_only_ever_gets_cheaper_on_spot() {
    for seed in 1..3 {
        live(seed, "spot").await;
    }
}
