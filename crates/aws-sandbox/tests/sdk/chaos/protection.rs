//! What protects pods and nodes: `karpenter.sh/do-not-disrupt`, PodDisruptionBudgets and disruption budgets of pools. Some worlds have them
//! until peace.

use super::scenario::Scenario;
use super::users::all;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::NodePool;
use kerf_chaos::{Claim, Dice, Pdb, View, delete, merge};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The annotation of protected pods.
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Protects pods and nodes of some scenarios.
pub(super) fn protect(seed: u64, scenario: &mut Scenario) {
    let dice = Dice::new(seed, "protection");
    if dice.chance(40) {
        return;
    }
    for deployment in &mut scenario.deployments {
        if dice.chance(25) {
            let protection = dice.one(&["true", "5m", "12m"]);
            deployment["spec"]["template"]["metadata"]["annotations"] = json!({DO_NOT_DISRUPT: protection});
        }
        if dice.chance(45) {
            let mut spec = dice.one(&[
                json!({"maxUnavailable": 1}),
                json!({"minAvailable": 1}),
                json!({"maxUnavailable": "30%"}),
                json!({"minAvailable": "50%"}),
                json!({"maxUnavailable": 0}),
            ]);
            spec["selector"] = deployment["spec"]["selector"].clone();
            let budget = json!({"metadata": {"name": deployment["metadata"]["name"]}, "spec": spec});
            scenario.pdbs.push(budget);
        }
    }
    for pool in &mut scenario.pools {
        let budgets = pool["spec"]["disruption"]["budgets"].as_array_mut().unwrap();
        budgets.extend(dice.more_budgets());
    }
}

/// Names of claims that pods keep from ending: one of theirs is protected, or has a budget that allows no eviction.
pub(super) fn held(seen: &View) -> BTreeSet<String> {
    let claims = seen.claims.values().filter(|claim| is_held(seen, claim));
    claims.map(|claim| claim.name.clone()).collect()
}

fn is_held(seen: &View, claim: &Claim) -> bool {
    // After the deadline nothing holds.
    if claim.deadline.is_some() {
        return false;
    }
    let allows_none = |pdb: &Pdb| {
        let is_healthy = |pod: &&kerf_chaos::Pod| pdb.covers(pod) && pod.is_active() && pod.ready;
        let healthy = seen.pods.values().filter(is_healthy).count();
        i64::try_from(healthy).unwrap() <= pdb.desired
    };
    let nodes = seen.nodes.values().filter(|node| node.provider_id == claim.provider_id);
    let mut pods = nodes.flat_map(|node| seen.pods_on(&node.name));
    pods.any(|pod| {
        let has_budget = || seen.pdbs.values().any(|pdb| pdb.covers(pod) && allows_none(pdb));
        pod.is_active() && (pod.is_protected(seen.now) || has_budget())
    })
}

/// Takes away all budgets but the first one of each pool, which allows something at any time.
pub(super) async fn lift_budgets(client: &Client, pools: &[Value]) {
    for budget in all::<PodDisruptionBudget>(client).await {
        delete::<PodDisruptionBudget>(&Api::default_namespaced(client.clone()), &budget.name_any()).await;
    }
    for pool in pools {
        let budgets = pool["spec"]["disruption"]["budgets"].as_array().unwrap();
        if budgets.len() > 1 {
            let first = json!({"spec": {"disruption": {"budgets": [budgets[0]]}}});
            let name = pool["metadata"]["name"].as_str().unwrap();
            merge::<NodePool>(&Api::all(client.clone()), name, &first).await;
        }
    }
}

/// No pod is protected any more. Those that take the place of others are again.
pub(super) async fn free_pods(client: &Client) {
    let free = json!({"metadata": {"annotations": {DO_NOT_DISRUPT: null}}});
    for pod in all::<Pod>(client).await {
        if pod.annotations().contains_key(DO_NOT_DISRUPT) {
            merge::<Pod>(&Api::default_namespaced(client.clone()), &pod.name_any(), &free).await;
        }
    }
}
