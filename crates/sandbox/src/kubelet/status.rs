//! The status patches a kubelet writes for its pods, complete enough for the output of `kubectl`.

use super::kubelets::address;
use crate::object::{node_name, seconds};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Node, Pod};
use kube::ResourceExt;
use serde_json::{Value, json};

fn condition(pod: &Pod, kind: &str, value: bool, reason: Option<&str>, now: Timestamp) -> Value {
    let text = if value { "True" } else { "False" };
    let known = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    let same = known.iter().find(|old| old.type_ == kind && old.status == text);
    let since = same
        .and_then(|old| old.last_transition_time.clone())
        .unwrap_or_else(|| seconds(now));
    json!({"type": kind, "status": text, "lastTransitionTime": since, "reason": reason})
}

fn containers(pod: &Pod) -> &[Container] {
    pod.spec
        .as_ref()
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default()
}

fn init_containers(pod: &Pod) -> &[Container] {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.init_containers.as_deref())
        .unwrap_or_default()
}

fn container_status(pod: &Pod, container: &Container, state: &Value) -> Value {
    let running = state.get("running").is_some();
    let done = state["terminated"]["exitCode"] == json!(0);
    let sidecar_or_main = running || !init_containers(pod).iter().any(|init| init.name == container.name);
    let id = crate::object::short_hash(&(pod.metadata.uid.as_deref(), &container.name));
    json!({
        "name": container.name,
        "image": container.image,
        "imageID": format!("sandbox://{}", container.image.as_deref().unwrap_or_default()),
        "containerID": format!("sandbox://{id}"),
        "ready": if sidecar_or_main { running } else { done },
        "started": running,
        "restartCount": 0,
        "state": state,
    })
}

fn started_at(pod: &Pod, now: Timestamp) -> Value {
    let start = pod.status.as_ref().and_then(|status| status.start_time.clone());
    json!(start.unwrap_or_else(|| seconds(now)))
}

fn terminated(pod: &Pod, exit_code: i32, now: Timestamp) -> Value {
    let reason = if exit_code == 0 { "Completed" } else { "Error" };
    json!({"terminated": {
        "exitCode": exit_code, "reason": reason, "startedAt": started_at(pod, now), "finishedAt": seconds(now),
    }})
}

/// The QoS class by requests and limits of all containers: Guaranteed, Burstable or BestEffort.
fn qos_class(pod: &Pod) -> &'static str {
    let mut all = containers(pod).iter().chain(init_containers(pod)).peekable();
    let resources = |container: &Container| container.resources.clone().unwrap_or_default();
    let empty = |container: &Container| {
        let own = resources(container);
        own.requests.is_none_or(|r| r.is_empty()) && own.limits.is_none_or(|l| l.is_empty())
    };
    if all.clone().all(empty) {
        return "BestEffort";
    }
    let guaranteed = all.all(|container| {
        let own = resources(container);
        let limits = own.limits.unwrap_or_default();
        let requests = own.requests.unwrap_or_else(|| limits.clone());
        ["cpu", "memory"]
            .iter()
            .all(|name| limits.contains_key(*name) && requests.get(*name) == limits.get(*name))
    });
    if guaranteed { "Guaranteed" } else { "Burstable" }
}

/// Running and Ready.
pub(super) fn running(pod: &Pod, node: &Node, now: Timestamp) -> Value {
    let start = started_at(pod, now);
    let run = json!({"running": {"startedAt": start}});
    let sidecar = |container: &Container| container.restart_policy.as_deref() == Some("Always");
    let init = init_containers(pod).iter().map(|container| {
        let state = if sidecar(container) {
            run.clone()
        } else {
            terminated(pod, 0, now)
        };
        container_status(pod, container, &state)
    });
    let init: Vec<Value> = init.collect();
    let main: Vec<Value> = containers(pod).iter().map(|c| container_status(pod, c, &run)).collect();
    let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
    let host_network = pod.spec.as_ref().and_then(|spec| spec.host_network) == Some(true);
    let host_ip = address("10.0", &node.name_any());
    let ip = if host_network {
        host_ip.clone()
    } else {
        address("10.244", &name)
    };
    let kinds = [
        "PodReadyToStartContainers",
        "Initialized",
        "Ready",
        "ContainersReady",
        "PodScheduled",
    ];
    let conditions: Vec<Value> = kinds.iter().map(|kind| condition(pod, kind, true, None, now)).collect();
    let mut status = json!({
        "phase": "Running", "startTime": start, "conditions": conditions,
        "podIP": ip, "podIPs": [{"ip": ip}], "hostIP": host_ip, "hostIPs": [{"ip": host_ip}],
        "containerStatuses": main, "qosClass": qos_class(pod),
    });
    if !init.is_empty() {
        status["initContainerStatuses"] = Value::Array(init);
    }
    json!({"status": status})
}

/// Succeeded, or Failed where the exit code is not zero.
pub(super) fn finished(pod: &Pod, exit_code: i32, now: Timestamp) -> Value {
    let (phase, reason) = if exit_code == 0 {
        ("Succeeded", "PodCompleted")
    } else {
        ("Failed", "PodFailed")
    };
    let end = terminated(pod, exit_code, now);
    let main: Vec<Value> = containers(pod).iter().map(|c| container_status(pod, c, &end)).collect();
    let conditions = [
        condition(pod, "Ready", false, Some(reason), now),
        condition(pod, "ContainersReady", false, Some(reason), now),
    ];
    json!({"status": {
        "phase": phase, "startTime": started_at(pod, now), "conditions": conditions, "containerStatuses": main,
    }})
}

/// KWK-064: Ready is False and the phase Unknown.
pub(super) fn unhealthy(pod: &Pod, now: Timestamp) -> Value {
    debug_assert!(node_name(pod).is_some(), "only bound pods have a kubelet");
    let conditions = [
        condition(pod, "Ready", false, None, now),
        condition(pod, "ContainersReady", false, None, now),
    ];
    json!({"status": {"phase": "Unknown", "startTime": started_at(pod, now), "conditions": conditions}})
}
