//! Kubernetes objects as JSON, for tests that send them to an API server or read them as one stored them.

use serde_json::{Value, json};

/// A pod of one container that requests so much CPU, as a client sends it. It names no namespace.
pub fn pod(name: &str, cpu: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}]},
    })
}

/// The object as an API server stores it in a namespace. Its uid is its name.
pub fn stored(namespace: &str, mut object: Value) -> Value {
    let name = object["metadata"]["name"].clone();
    object["metadata"]["namespace"] = json!(namespace);
    object["metadata"]["uid"] = name;
    object
}

/// The pod after kube-scheduler found no node for it.
pub fn unschedulable(mut pod: Value) -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
    pod["status"] = json!({"phase": "Pending", "conditions": [condition]});
    pod
}

/// The pod on a node, where it runs.
pub fn running(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = json!(node);
    pod["status"] = json!({"phase": "Running"});
    pod
}
