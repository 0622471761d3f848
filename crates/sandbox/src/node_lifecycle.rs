//! The node lifecycle controller and taint eviction of the controller manager: taints of unhealthy and cordoned nodes, unready pods.

use crate::context::{ActorContext, queue};
use crate::kubelet::ready;
use crate::node_match::tolerates;
use crate::object::{is_active, is_ready, node_name, seconds};
use crate::store::key_of;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod, Taint};
use kerf_runtime::{Outcome, ReconcileError};
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Conditions other than Ready that taint a node when they are True, with the key of the taint.
const BY_CONDITION: [(&str, &str); 4] = [
    ("MemoryPressure", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "node.kubernetes.io/network-unavailable"),
];

pub(crate) fn start(context: &Arc<ActorContext>, tasks: &mut JoinSet<()>) {
    let (nodes, pods) = (queue(), queue());
    let (node_keys, pod_keys, own) = (nodes.clone(), pods.clone(), Arc::downgrade(context));
    context.nodes.listen(move |change| {
        node_keys.add(change.key.clone());
        let evicting = |node: Option<&Node>| node.map(no_execute).unwrap_or_default();
        if evicting(change.old) != evicting(change.new) {
            let Some(context) = own.upgrade() else { return };
            for pod in context.pods_on(&change.key.name) {
                pod_keys.add(key_of(&*pod));
            }
        }
    });
    let pod_keys = pods.clone();
    context.pods.listen(move |change| {
        let bound = |pod: Option<&Pod>| pod.and_then(node_name).map(str::to_owned);
        if bound(change.old) != bound(change.new) {
            pod_keys.add(change.key.clone());
        }
    });
    context.run(tasks, "node.lifecycle", nodes, |context, key| async move {
        let Some(node) = context.nodes.get(&key) else {
            return Ok(Outcome::Done);
        };
        taint(&context, &node).await?;
        if ready(&node).is_some_and(|ready| ready != "True") {
            unready_pods(&context, &node).await?;
        }
        Ok(Outcome::Done)
    });
    context.run(tasks, "taint.eviction", pods, |context, key| async move {
        let Some(pod) = context.pods.get(&key).filter(|pod| is_active(pod)) else {
            return Ok(Outcome::Done);
        };
        let Some(node) = node_name(&pod).and_then(|name| context.nodes.named(name)) else {
            return Ok(Outcome::Done);
        };
        evict(&context, &pod, &node).await
    });
}

/// The node's taints.
pub(crate) fn taints(node: &Node) -> &[Taint] {
    node.spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default()
}

fn no_execute(node: &Node) -> Vec<Taint> {
    taints(node)
        .iter()
        .filter(|taint| taint.effect == "NoExecute")
        .cloned()
        .collect()
}

/// The taints this controller owns that the node should have now: key and effect.
fn wanted(node: &Node) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    match ready(node) {
        Some("True") => {}
        Some("Unknown") => wanted.extend([(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")]),
        Some(_) => wanted.extend([(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")]),
        // A node that never reported gets no new pods, but its pods are not evicted.
        None => wanted.push((NOT_READY, "NoSchedule")),
    }
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    let conditions = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    for (kind, key) in BY_CONDITION {
        if conditions
            .iter()
            .any(|condition| condition.type_ == kind && condition.status == "True")
        {
            wanted.push((key, "NoSchedule"));
        }
    }
    wanted
}

fn is_owned(taint: &Taint) -> bool {
    let by_condition = BY_CONDITION.iter().any(|(_, key)| *key == taint.key);
    by_condition || [NOT_READY, UNREACHABLE, UNSCHEDULABLE].contains(&taint.key.as_str())
}

async fn taint(context: &ActorContext, node: &Node) -> Result<(), ReconcileError> {
    let wanted = wanted(node);
    let is_wanted = |taint: &Taint| {
        wanted
            .iter()
            .any(|(key, effect)| *key == taint.key && *effect == taint.effect)
    };
    let kept = taints(node).iter().filter(|taint| !is_owned(taint) || is_wanted(taint));
    let mut new: Vec<Taint> = kept.cloned().collect();
    for (key, effect) in &wanted {
        if !new.iter().any(|taint| taint.key == *key && taint.effect == *effect) {
            new.push(Taint {
                key: (*key).to_owned(),
                effect: (*effect).to_owned(),
                value: None,
                time_added: Some(seconds(context.now())),
            });
        }
    }
    write_taints(context, node, new).await
}

/// Replaces the taints of a node, if that changes them. A node that was deleted meanwhile is no error.
pub(crate) async fn write_taints(context: &ActorContext, node: &Node, new: Vec<Taint>) -> Result<(), ReconcileError> {
    if new.as_slice() == taints(node) {
        return Ok(());
    }
    // The resourceVersion makes the patch fail if another client changed the taints since the read.
    let patch = json!({"metadata": {"resourceVersion": node.resource_version()}, "spec": {"taints": new}});
    let api: Api<Node> = Api::all(context.client.clone());
    match api
        .patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch))
        .await
    {
        Ok(node) => context.nodes.record_write(node),
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// Sets Ready to False on the pods of a node that is not ready.
async fn unready_pods(context: &ActorContext, node: &Node) -> Result<(), ReconcileError> {
    for pod in context.pods_on(&node.name_any()).iter().filter(|pod| is_ready(pod)) {
        let condition = json!({
            "type": "Ready", "status": "False", "reason": "NodeNotReady", "lastTransitionTime": seconds(context.now()),
        });
        match context
            .patch_pod_status(&key_of(&**pod), json!({"status": {"conditions": [condition]}}))
            .await
        {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => other?,
        }
    }
    Ok(())
}

/// The time at which the node's NoExecute taints evict the pod; `None` for never.
fn eviction_time(pod: &Pod, node: &Node, now: Timestamp) -> Option<Timestamp> {
    let tolerations = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.tolerations.as_deref())
        .unwrap_or_default();
    let mut first: Option<Timestamp> = None;
    for taint in no_execute(node) {
        let matching: Vec<_> = tolerations
            .iter()
            .filter(|toleration| tolerates(toleration, &taint))
            .collect();
        if matching.is_empty() {
            return Some(now);
        }
        let Some(seconds) = matching
            .iter()
            .filter_map(|toleration| toleration.toleration_seconds)
            .min()
        else {
            continue;
        };
        let since = taint.time_added.as_ref().map_or(now, |time| time.0);
        let until = since
            .saturating_add(SignedDuration::from_secs(seconds.max(0)))
            .unwrap_or(Timestamp::MAX);
        first = Some(first.map_or(until, |first| first.min(until)));
    }
    first
}

async fn evict(context: &ActorContext, pod: &Pod, node: &Node) -> Result<Outcome, ReconcileError> {
    let Some(at) = eviction_time(pod, node, context.now()) else {
        return Ok(Outcome::Done);
    };
    let left = context.clock.until(at);
    if left > Duration::ZERO {
        return Ok(Outcome::RequeueAfter(left));
    }
    let condition = json!({
        "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint", "lastTransitionTime": seconds(context.now()),
    });
    match context
        .patch_pod_status(&key_of(pod), json!({"status": {"conditions": [condition]}}))
        .await
    {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Outcome::Done),
        other => other?,
    }
    context.delete(&context.pods, pod, None).await?;
    Ok(Outcome::Done)
}
