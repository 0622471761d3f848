//! Nodes.

use jiff::Timestamp;
use serde_json::Value;

use super::builtin::{NAME, Printer, age_of, at, list_at, name, or, text, text_at, wide};

pub(super) const NODE: Printer = Printer {
    columns: &[
        NAME,
        text("Status"),
        text("Roles"),
        text("Age"),
        text("Version"),
        wide("Internal-IP"),
        wide("External-IP"),
        wide("OS-Image"),
        wide("Kernel-Version"),
        wide("Container-Runtime"),
    ],
    row,
};

const ROLE_PREFIX: &str = "node-role.kubernetes.io/";

fn row(node: &Value, now: Timestamp) -> Vec<Value> {
    let address = |ty: &str| {
        let found = list_at(node, &["status", "addresses"])
            .iter()
            .find(|a| text_at(a, &["type"]) == ty);
        Value::from(found.map_or("<none>", |a| text_at(a, &["address"])))
    };
    let info = |key: &str| Value::from(or(text_at(node, &["status", "nodeInfo", key]), "<unknown>"));
    vec![
        name(node),
        status(node).into(),
        roles(node).into(),
        age_of(node, now),
        text_at(node, &["status", "nodeInfo", "kubeletVersion"]).into(),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        info("kernelVersion"),
        info("containerRuntimeVersion"),
    ]
}

fn status(node: &Value) -> String {
    let ready = list_at(node, &["status", "conditions"])
        .iter()
        .find(|c| text_at(c, &["type"]) == "Ready");
    let mut status = match ready {
        Some(condition) if text_at(condition, &["status"]) == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if at(node, &["spec", "unschedulable"]).and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn roles(node: &Value) -> String {
    let labels = at(node, &["metadata", "labels"]).and_then(Value::as_object);
    let mut roles: Vec<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix(ROLE_PREFIX) {
            Some(role) if !role.is_empty() => Some(role),
            _ if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            _ => None,
        })
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_roles_and_version() {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        let node = json!({
            "metadata": {"name": "n1", "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1.36.0"},
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        });
        assert_eq!(
            row(&node, now)[..6],
            [
                "n1",
                "Ready,SchedulingDisabled",
                "gpu,worker",
                "60m",
                "v1.36.0",
                "10.0.0.1"
            ]
        );
        let fresh = json!({"metadata": {"name": "n2"}});
        assert_eq!(row(&fresh, now)[1..3], ["Unknown", "<none>"]);
        let broken = json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}});
        assert_eq!(row(&broken, now)[1], "NotReady");
    }
}
