//! What a Node gets from its claim, and so from its pool's template.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use serde_json::{Value, json};

const TAINTS: [(&str, &str, &str); 2] = [
    ("example.com/a", "1", "NoSchedule"),
    ("example.com/b", "2", "NoExecute"),
];

/// An annotation, a label and taints, as a claim or a template has them.
pub(crate) fn said() -> Value {
    let taints = TAINTS.map(|(key, value, effect)| json!({"key": key, "value": value, "effect": effect}));
    json!({
        "metadata": {"annotations": {"example.com/note": "kept"}, "labels": {"example.com/team": "core"}},
        "spec": {"taints": taints},
    })
}

/// Fails unless the Node has everything in [`said`], and no other taints.
pub(crate) fn assert_on(node: &Node) {
    let note = node.annotations().get("example.com/note").map(String::as_str);
    let team = node.labels().get("example.com/team").map(String::as_str);
    assert_eq!((note, team), (Some("kept"), Some("core")));
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let taints: BTreeSet<(&str, &str, &str)> = taints
        .map(|taint| {
            let value = taint.value.as_deref().unwrap_or_default();
            (taint.key.as_str(), value, taint.effect.as_str())
        })
        .collect();
    assert_eq!(taints, BTreeSet::from(TAINTS));
}
