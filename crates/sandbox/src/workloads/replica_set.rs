//! The ReplicaSet controller: a number of pods of one template.

use super::pod_creation::create_pod;
use super::template::{self, PodName};
use crate::context::{ActorContext, active, enqueue_own_and_pods, queue};
use crate::object::{annotation, is_available, is_ready, node_name, phase, ready_since, scaled_value, uid};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Most pods created in one reconcile, as in the controller manager.
const BURST: usize = 500;

pub(super) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let queue = queue();
    enqueue_own_and_pods(&queue, &context.replica_sets, &context.pods);
    context.run(tasks, "replicaset", queue, |context, key| async move {
        let Some(set) = context.replica_sets.get(&key) else {
            return Ok(Outcome::Done);
        };
        reconcile(&context, &set).await
    });
}

async fn reconcile(context: &ActorContext, set: &ReplicaSet) -> Result<Outcome, ReconcileError> {
    let scaled = if set.metadata.deletion_timestamp.is_none() {
        scale(context, set).await
    } else {
        Ok(())
    };
    // The status counts the pods also where the next one was refused.
    let outcome = write_status(context, set).await?;
    scaled?;
    Ok(outcome)
}

/// Creates the pods that are missing, or deletes those that are too many.
async fn scale(context: &ActorContext, set: &ReplicaSet) -> Result<(), kube::Error> {
    let pods = active(context.controlled_pods(uid(set)));
    let wanted = usize::try_from(set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)).unwrap_or(0);
    if pods.len() < wanted {
        let template = set
            .spec
            .as_ref()
            .and_then(|spec| spec.template.clone())
            .unwrap_or_default();
        for _ in 0..(wanted - pods.len()).min(BURST) {
            let prefix = PodName::Prefix(format!("{}-", set.name_any()));
            let pod = template::pod(set, &template, prefix);
            create_pod(context, set, "replicaset-controller", &pod).await?;
        }
    } else if pods.len() > wanted {
        for pod in dispensable(&pods).into_iter().take(pods.len() - wanted) {
            context.delete(&context.pods, &*pod, None).await?;
        }
    }
    Ok(())
}

/// Pods in the order in which they are given up: unbound, pending and unready ones first, then cheap ones, those that share their node with
/// more of their kind, and young ones.
fn dispensable(pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let mut sorted = pods.to_vec();
    let cost = |pod: &Pod| -> i32 {
        let text = annotation(pod, "controller.kubernetes.io/pod-deletion-cost");
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    let mut on_node: BTreeMap<&str, usize> = BTreeMap::new();
    for node in pods.iter().filter_map(|pod| node_name(pod)) {
        *on_node.entry(node).or_default() += 1;
    }
    let sharing = |pod: &Pod| node_name(pod).and_then(|node| on_node.get(node)).copied();
    sorted.sort_by_cached_key(|pod| {
        let rank = match phase(pod) {
            "Pending" => 0,
            "Unknown" => 1,
            _ => 2,
        };
        let age = |at: Option<jiff::Timestamp>| std::cmp::Reverse(at.unwrap_or(jiff::Timestamp::MAX));
        let created = pod.creation_timestamp().map(|time| time.0);
        (
            node_name(pod).is_some(),
            rank,
            is_ready(pod),
            cost(pod),
            std::cmp::Reverse(sharing(pod)),
            age(ready_since(pod)),
            age(created),
            pod.name_any(),
        )
    });
    sorted
}

async fn write_status(context: &ActorContext, set: &ReplicaSet) -> Result<Outcome, ReconcileError> {
    let pods = active(context.controlled_pods(uid(set)));
    let min_ready_s = set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or(0);
    let now = context.now();
    let count = |holds: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| holds(pod)).count();
    let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let labels = template
        .and_then(|t| t.metadata.as_ref())
        .and_then(|meta| meta.labels.clone())
        .unwrap_or_default();
    let labeled = |pod: &Pod| labels.iter().all(|(key, value)| pod.labels().get(key) == Some(value));
    let (ready, available) = (count(&is_ready), count(&|pod| is_available(pod, min_ready_s, now)));
    let positive = |count: usize| (count > 0).then_some(count);
    let status = json!({
        "replicas": pods.len(), "fullyLabeledReplicas": positive(count(&labeled)), "readyReplicas": positive(ready),
        "availableReplicas": positive(available), "observedGeneration": set.metadata.generation,
    });
    context
        .update_status(&context.replica_sets, set, &set.status, status)
        .await?;
    // A pod becomes available after `minReadySeconds` without a further change.
    Ok(template::until_available(ready > available, min_ready_s))
}

/// `maxSurge` and `maxUnavailable` of a rolling update in pods; at least one of them is above zero.
pub(super) fn rolling_bounds(
    surge: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
    unavailable: Option<&k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>,
    replicas: i32,
) -> (i32, i32) {
    let quarter = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("25%".to_owned());
    let surge = scaled_value(surge.unwrap_or(&quarter), replicas, true);
    let unavailable = scaled_value(unavailable.unwrap_or(&quarter), replicas, false);
    if surge == 0 && unavailable == 0 {
        (0, 1)
    } else {
        (surge, unavailable)
    }
}
