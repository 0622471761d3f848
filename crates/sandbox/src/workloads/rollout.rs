//! The steps of a Deployment's rollout, and the status that reports them.

use super::deployment::{Fleet, replicas, wanted};
use super::replica_set::rolling_bounds;
use super::template::condition;
use crate::context::ActorContext;
use crate::object::uid;
use crate::store::key_of;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kerf_runtime::ReconcileError;
use kube::ResourceExt;
use serde_json::{Value, json};

fn recreates(deployment: &Deployment) -> bool {
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("Recreate")
}

/// The resolved `maxSurge` and `maxUnavailable` in pods.
pub(super) fn bounds(deployment: &Deployment) -> (i32, i32) {
    if recreates(deployment) {
        return (0, wanted(deployment));
    }
    let strategy = deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
    let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
    let (surge, unavailable) = (
        rolling.and_then(|r| r.max_surge.as_ref()),
        rolling.and_then(|r| r.max_unavailable.as_ref()),
    );
    rolling_bounds(surge, unavailable, wanted(deployment))
}

/// The allowed size of the new replica set, from the sizes of the old ones and its own current size.
pub(super) fn room_for_new(deployment: &Deployment, old: i32, new: i32) -> i32 {
    let wanted = wanted(deployment);
    if recreates(deployment) {
        return if old > 0 { 0 } else { wanted };
    }
    let (surge, _) = bounds(deployment);
    let room = wanted + surge - old - new;
    (new + room.max(0)).min(wanted)
}

/// One step: the new replica set grows as far as the surge allows, the old ones shrink as far as availability allows.
pub(super) async fn step(context: &ActorContext, deployment: &Deployment, fleet: &Fleet) -> Result<(), ReconcileError> {
    let Some(new) = fleet.new_set() else { return Ok(()) };
    let old: i32 = fleet.old_sets().map(|set| replicas(set)).sum();
    let old_pods: i32 = if recreates(deployment) {
        fleet
            .old_sets()
            .map(|set| i32::try_from(context.controlled_pods(uid(&**set)).len()).unwrap_or(i32::MAX))
            .sum()
    } else {
        0
    };
    let size = room_for_new(deployment, old.max(old_pods), replicas(new).min(wanted(deployment)));
    scale(context, new, size).await?;
    shrink_old(context, deployment, fleet, new, size).await
}

async fn shrink_old(
    context: &ActorContext,
    deployment: &Deployment,
    fleet: &Fleet,
    new: &ReplicaSet,
    new_size: i32,
) -> Result<(), ReconcileError> {
    let (_, unavailable) = bounds(deployment);
    let old: i32 = fleet.old_sets().map(|set| replicas(set)).sum();
    let least = wanted(deployment) - unavailable;
    let new_missing = new_size - available(new);
    // Pods that may be removed while enough pods stay available.
    let mut budget = old + new_size - least - new_missing.max(0);
    if budget <= 0 {
        return Ok(());
    }
    for set in fleet.old_sets().filter(|set| replicas(set) > 0) {
        // Unavailable pods are removed first. They need no availability, only the limit on the total.
        let broken = (replicas(set) - available(set)).min(budget);
        if broken > 0 {
            budget -= broken;
            scale(context, set, replicas(set) - broken).await?;
        }
    }
    let available_now: i32 = fleet.sets.iter().map(|set| available(set)).sum();
    // The status is older than the sizes, so the sum of sizes is a second limit.
    let mut budget = budget.min(available_now - least);
    for set in fleet.old_sets() {
        let Some(current) = context.replica_sets.get(&key_of(&**set)) else {
            continue;
        };
        let gone = replicas(&current).min(budget.max(0));
        if gone > 0 {
            budget -= gone;
            scale(context, &current, replicas(&current) - gone).await?;
        }
    }
    Ok(())
}

fn available(set: &ReplicaSet) -> i32 {
    set.status
        .as_ref()
        .and_then(|status| status.available_replicas)
        .unwrap_or(0)
}

async fn scale(context: &ActorContext, set: &ReplicaSet, size: i32) -> Result<(), ReconcileError> {
    if replicas(set) != size {
        let patch = json!({"spec": {"replicas": size}});
        context.patch(&context.replica_sets, &key_of(set), &patch).await?;
    }
    Ok(())
}

/// A paused deployment scales without a rollout: its largest replica set takes the difference.
pub(super) async fn scale_to(
    context: &ActorContext,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Result<(), ReconcileError> {
    let total: i32 = fleet.sets.iter().map(|set| replicas(set)).sum();
    let largest = fleet.sets.iter().max_by_key(|set| replicas(set));
    let Some(set) = fleet.new_set().or(largest) else {
        return Ok(());
    };
    let size = (replicas(set) + wanted(deployment) - total).max(0);
    scale(context, set, size).await
}

pub(super) async fn write_status(
    context: &ActorContext,
    deployment: &Deployment,
    fleet: &Fleet,
) -> Result<(), ReconcileError> {
    let sum = |of: &dyn Fn(&ReplicaSet) -> i32| fleet.sets.iter().map(|set| of(set)).sum::<i32>();
    let pods = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let ready = |set: &ReplicaSet| {
        set.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    };
    let updated = fleet.new_set().map_or(0, |set| pods(set));
    let (total, available) = (sum(&pods), sum(&available));
    let desired = sum(&|set| replicas(set));
    let (_, may_miss) = bounds(deployment);
    let enough = available >= wanted(deployment) - may_miss;
    let complete = updated == wanted(deployment) && total == updated && available == updated;
    let name = fleet.new_set().map_or_else(String::new, |set| set.name_any());
    let (reason, message) = if complete {
        (
            "NewReplicaSetAvailable",
            format!("ReplicaSet \"{name}\" has successfully progressed."),
        )
    } else {
        ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."))
    };
    let available_condition = if enough {
        json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
            "message": "Deployment has minimum availability."})
    } else {
        json!({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable",
            "message": "Deployment does not have minimum availability."})
    };
    let progressing = json!({"type": "Progressing", "status": "True", "reason": reason, "message": message});
    let known = known_conditions(deployment);
    let now = context.now();
    let conditions: Vec<Value> = [available_condition, progressing]
        .into_iter()
        .map(|new| updated_condition(deployment, condition(&known, new, now), now))
        .collect();
    let positive = |count: i32| (count > 0).then_some(count);
    let status = json!({
        "observedGeneration": deployment.metadata.generation, "replicas": positive(total),
        "updatedReplicas": positive(updated), "readyReplicas": positive(sum(&ready)),
        "availableReplicas": positive(available), "unavailableReplicas": positive(desired.max(wanted(deployment)) - available),
        "conditions": conditions,
    });
    context
        .update_status(&context.deployments, deployment, &deployment.status, status)
        .await?;
    Ok(())
}

fn known_conditions(deployment: &Deployment) -> Vec<Condition> {
    let conditions = deployment
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let plain = conditions.into_iter().map(|old| Condition {
        type_: old.type_,
        status: old.status,
        reason: old.reason.unwrap_or_default(),
        message: old.message.unwrap_or_default(),
        last_transition_time: old
            .last_transition_time
            .unwrap_or_else(|| crate::object::seconds(jiff::Timestamp::UNIX_EPOCH)),
        observed_generation: None,
    });
    plain.collect()
}

/// The condition, with the old update time when nothing else differs.
fn updated_condition(deployment: &Deployment, mut new: Value, now: jiff::Timestamp) -> Value {
    let known = deployment
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let same = known.iter().find(|old| {
        new["type"] == old.type_.as_str()
            && new["status"] == old.status.as_str()
            && new["reason"] == json!(old.reason)
            && new["message"] == json!(old.message)
    });
    new["lastUpdateTime"] = same.map_or_else(|| json!(crate::object::seconds(now)), |old| json!(old.last_update_time));
    new
}
