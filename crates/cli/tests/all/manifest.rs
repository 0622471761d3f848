//! Manifests that several tests write.

use serde_json::{Value, json};

/// The time of every offline decision, as options.
pub(crate) const NOW: [&str; 2] = ["--now", "2026-01-05T08:00:00Z"];

/// A List of objects as JSON text.
pub(crate) fn list(items: &[Value]) -> String {
    json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()
}

/// What a NodePool or NodeClaim says of its node class.
pub(crate) fn class_ref(name: &str) -> Value {
    json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": name})
}

/// A node class.
pub(crate) fn class(name: &str) -> Value {
    json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": name}})
}

/// A NodePool with a node class of the same name. `spec` has its fields besides the template.
pub(crate) fn pool(name: &str, requirements: &Value, mut spec: Value) -> Value {
    spec["template"] = json!({"spec": {"nodeClassRef": class_ref(name), "requirements": requirements}});
    json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": spec})
}

/// The requirement of machines for amd64.
pub(crate) fn amd64() -> Value {
    json!([{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}])
}

/// A pod as a YAML document; `spec` is a line of its spec.
pub(crate) fn pod_yaml(name: &str, cpu: &str, spec: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  {spec}
  containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}}}}}}}]
---
"
    )
}

/// `object` with another value at `path`, whose parts are separated by slashes.
pub(crate) fn with(mut object: Value, path: &str, value: Value) -> Value {
    let mut at = &mut object;
    for part in path.split('/') {
        at = &mut at[part];
    }
    *at = value;
    object
}
