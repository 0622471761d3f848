//! Events about pods and pools (section 23 of `docs/behaviour/scheduling.md`).

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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kerf_model::intern::Interner;
    use kerf_state::{Conventions, Converter};
    use serde_json::json;

    use super::*;

    // SCH-144, SCH-342
    #[test]
    fn an_empty_pool_says_whether_min_values_are_the_cause() {
        let pool = json!({"metadata": {"name": "web", "uid": "web"}, "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "g", "kind": "k", "name": "n"}}}}});
        let pool: NodePool = serde_json::from_value(pool).expect("a pool");
        let mut converter = Converter::new(Arc::new(Interner::default()), &Conventions::default());
        let pool = converter.pool(&pool, true).expect("a name").pool;
        let text = "NodePool requirements filtered out all compatible available instance types";
        for (min_values, suffix) in [(false, ""), (true, " due to minValues incompatibility")] {
            let event = no_compatible_instance_types(&pool, min_values);
            assert_eq!(event.message, format!("{text}{suffix}"));
            assert_eq!(
                (event.object.name.as_str(), event.object.kind.as_str()),
                ("web", "NodePool")
            );
        }
    }
}
