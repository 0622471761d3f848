//! Events about pods and pools (section 23 of the scheduling contract).

use std::time::Duration;

use crate::pod_reference::pod_ref;
use kerf_api::NodePool;
use kerf_model::pod::Pod;
use kerf_runtime::{Event, EventType, ObjectRef};
use kube::Resource;

/// The event on a pod that has no place (SCH-340).
pub(crate) fn failed_scheduling(pod: &Pod, error: &str) -> Event {
    Event {
        object: pod_ref(&pod.namespace, &pod.name, &pod.uid),
        kind: EventType::Warning,
        reason: "FailedScheduling".into(),
        message: format!("Failed to schedule pod, {error}"),
        dedupe: vec![pod.uid.to_string()],
        dedupe_timeout: Some(Duration::from_secs(300)),
    }
}

/// SCH-341: where a pod is to run; the claim's name, the Node's, or both.
pub(crate) fn nominated(pod: &Pod, claim: Option<&str>, node: Option<&str>) -> Event {
    let claim = claim.map(|name| format!("nodeclaim/{name}"));
    let node = node.map(|name| format!("node/{name}"));
    let places: Vec<String> = claim.into_iter().chain(node).collect();
    Event {
        object: pod_ref(&pod.namespace, &pod.name, &pod.uid),
        kind: EventType::Normal,
        reason: "Nominated".into(),
        message: format!("Pod should schedule on: {}", places.join(", ")),
        dedupe: vec![pod.uid.to_string()],
        dedupe_timeout: None,
    }
}

/// The event on a pool of which no instance type fits its own requirements (SCH-144, SCH-342).
pub(crate) fn no_compatible_instance_types(pool: &kerf_model::nodepool::NodePool, min_values: bool) -> Event {
    let cause = if min_values {
        " due to minValues incompatibility"
    } else {
        ""
    };
    Event {
        object: ObjectRef {
            api_version: NodePool::api_version(&()).into_owned(),
            kind: NodePool::kind(&()).into_owned(),
            namespace: None,
            name: pool.name.to_string(),
            uid: pool.uid.to_string(),
        },
        kind: EventType::Warning,
        reason: "NoCompatibleInstanceTypes".into(),
        message: format!("NodePool requirements filtered out all compatible available instance types{cause}"),
        dedupe: vec![pool.uid.to_string()],
        dedupe_timeout: Some(Duration::from_secs(60)),
    }
}
