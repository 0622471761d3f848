//! The status of PodDisruptionBudgets: how many pods may be evicted now.

use crate::context::{ActorContext, queue};
use crate::object::{controller, is_active, is_ready, scaled_value, selects};
use crate::store::key_of;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_runtime::{ObjectKey, Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How long a granted eviction counts while its pod still exists, as in the controller manager.
const EVICTION_COUNTS: SignedDuration = SignedDuration::from_mins(2);

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    let keys = queue.clone();
    context.budgets.listen(move |change| keys.add(change.key.clone()));
    let (keys, own) = (queue.clone(), Arc::downgrade(context));
    context.pods.listen(move |change| {
        let face = |pod: Option<&Pod>| pod.map(|pod| (is_active(pod), is_ready(pod), pod.labels().clone()));
        let Some(context) = own.upgrade().filter(|_| face(change.old) != face(change.new)) else {
            return;
        };
        for budget in context.budgets.in_namespace(&change.key.namespace) {
            let matches = |pod: Option<&Pod>| pod.is_some_and(|pod| covers(&budget, pod));
            if matches(change.old) || matches(change.new) {
                keys.add_after(key_of(&*budget), crate::context::COALESCE);
            }
        }
    });
    context.run(tasks, "disruption", queue, |context, key| async move {
        let Some(budget) = context.budgets.get(&key) else {
            return Ok(Outcome::Done);
        };
        reconcile(&context, &budget).await
    });
}

fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selects(selector, pod.metadata.labels.as_ref())
}

/// The expected number of pods: the sum of the replicas of their controllers, plus the pods without a controller.
fn expected(context: &ActorContext, pods: &[Arc<Pod>]) -> i32 {
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    for pod in pods {
        let Some(owner) = controller(&**pod) else {
            scales.insert(pod.name_any(), 1);
            continue;
        };
        let key = ObjectKey::new(pod.namespace().unwrap_or_default(), &*owner.name);
        let (uid, scale) = match owner.kind.as_str() {
            "ReplicaSet" => {
                let set = context.replica_sets.get(&key);
                let above = set
                    .as_deref()
                    .and_then(controller)
                    .filter(|owner| owner.kind == "Deployment");
                let deployment =
                    above.and_then(|owner| context.deployments.get(&ObjectKey::new(&*key.namespace, &*owner.name)));
                match deployment {
                    Some(deployment) => (
                        deployment.uid().unwrap_or_default(),
                        deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1),
                    ),
                    None => (
                        owner.uid.clone(),
                        set.and_then(|set| set.spec.as_ref()?.replicas).unwrap_or(1),
                    ),
                }
            }
            "StatefulSet" => {
                let set = context.stateful_sets.get(&key);
                (
                    owner.uid.clone(),
                    set.and_then(|set| set.spec.as_ref()?.replicas).unwrap_or(1),
                )
            }
            _ => {
                let same = pods
                    .iter()
                    .filter(|other| controller(&***other).is_some_and(|o| o.uid == owner.uid));
                (owner.uid.clone(), i32::try_from(same.count()).unwrap_or(i32::MAX))
            }
        };
        scales.insert(uid, scale);
    }
    scales.values().sum()
}

async fn reconcile(context: &ActorContext, budget: &PodDisruptionBudget) -> Result<Outcome, ReconcileError> {
    let spec = budget.spec.clone().unwrap_or_default();
    let mut pods = context.pods.in_namespace(&budget.namespace().unwrap_or_default());
    pods.retain(|pod| covers(budget, pod) && !crate::object::is_finished(pod));
    let count = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let (expected, desired) = match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let expected = expected(context, &pods);
            (expected, (expected - scaled_value(unavailable, expected, true)).max(0))
        }
        (None, Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(least))) => (count, *least),
        (None, Some(share)) => {
            let expected = expected(context, &pods);
            (expected, scaled_value(share, expected, true))
        }
        (None, None) => (count, 0),
    };
    let now = context.now();
    let known = budget.status.clone().unwrap_or_default();
    let mut disrupted = known.disrupted_pods.clone().unwrap_or_default();
    let mut wake: Option<Duration> = None;
    disrupted.retain(|name, since| {
        let there = pods.iter().any(|pod| pod.name_any() == *name && is_active(pod));
        let until = since.0.saturating_add(EVICTION_COUNTS).unwrap_or(jiff::Timestamp::MAX);
        let holds = there && until > now;
        if holds {
            let left = context.clock.until(until);
            wake = Some(wake.map_or(left, |wake| wake.min(left)));
        }
        holds
    });
    let counts = |pod: &&Arc<Pod>| is_active(pod) && is_ready(pod) && !disrupted.contains_key(&pod.name_any());
    let healthy = i32::try_from(pods.iter().filter(counts).count()).unwrap_or(i32::MAX);
    let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
    let (value, reason) = if allowed > 0 {
        ("True", "SufficientPods")
    } else {
        ("False", "InsufficientPods")
    };
    let condition = json!({
        "type": "DisruptionAllowed", "status": value, "reason": reason, "message": "",
        "observedGeneration": budget.metadata.generation,
    });
    let old = known.conditions.clone().unwrap_or_default();
    let condition = crate::workloads::condition(&old, condition, now);
    // A merge patch removes entries only by name.
    let gone = known
        .disrupted_pods
        .iter()
        .flatten()
        .filter(|(name, _)| !disrupted.contains_key(*name));
    let gone: serde_json::Map<_, _> = gone.map(|(name, _)| (name.clone(), serde_json::Value::Null)).collect();
    let mut status = json!({
        "observedGeneration": budget.metadata.generation, "currentHealthy": healthy, "desiredHealthy": desired,
        "expectedPods": expected, "disruptionsAllowed": allowed, "conditions": [condition],
    });
    if !gone.is_empty() {
        status["disruptedPods"] = serde_json::Value::Object(gone);
    }
    if crate::context::patch_changes(&json!(known), &status) {
        // The resourceVersion makes the patch fail if an eviction was granted since the read.
        let patch = json!({"metadata": {"resourceVersion": budget.resource_version()}, "status": status});
        match context.patch_status(&context.budgets, &key_of(budget), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => other?,
        }
    }
    Ok(wake.map_or(Outcome::Done, Outcome::RequeueAfter))
}
