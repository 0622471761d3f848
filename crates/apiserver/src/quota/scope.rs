//! The scopes of a quota: a quota with scopes counts only the pods that all of them select.

use serde_json::Value;

use super::usage::{is_best_effort, is_pod};
use crate::json;

/// Whether the quota counts the object.
pub(crate) fn counts(quota: &Value, group: &str, plural: &str, object: &Value) -> bool {
    let scopes = json::items(quota, &["spec", "scopes"]);
    let expressions = json::items(quota, &["spec", "scopeSelector", "matchExpressions"]);
    if scopes.is_empty() && expressions.is_empty() {
        return true;
    }
    is_pod(group, plural)
        && scopes
            .iter()
            .all(|scope| selects(scope.as_str().unwrap_or_default(), "Exists", &[], object))
        && expressions.iter().all(|expression| {
            let scope = json::text(expression, &["scopeName"]).unwrap_or_default();
            let operator = json::text(expression, &["operator"]).unwrap_or("Exists");
            selects(scope, operator, json::items(expression, &["values"]), object)
        })
}

/// Whether one scope selects the pod. Only `PriorityClass` has values to compare.
fn selects(scope: &str, operator: &str, values: &[Value], pod: &Value) -> bool {
    let terminating = json::int(pod, &["spec", "activeDeadlineSeconds"]).is_some_and(|seconds| seconds >= 0);
    match scope {
        "Terminating" => terminating,
        "NotTerminating" => !terminating,
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "CrossNamespacePodAffinity" => has_cross_namespace_terms(json::at(pod, &["spec", "affinity"])),
        "PriorityClass" => {
            let class = json::text(pod, &["spec", "priorityClassName"]);
            let listed = class.is_some_and(|class| values.iter().any(|value| value == class));
            match operator {
                "In" => listed,
                "NotIn" => !listed,
                "DoesNotExist" => class.is_none(),
                _ => class.is_some(),
            }
        }
        _ => false,
    }
}

/// Whether a pod affinity or anti-affinity term names namespaces or selects them.
fn has_cross_namespace_terms(affinity: &Value) -> bool {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let terms = json::items(affinity, &[kind, required]).iter();
        let weighted = json::items(affinity, &[kind, preferred]).iter();
        terms
            .chain(weighted.map(|term| json::at(term, &["podAffinityTerm"])))
            .any(|term| !json::items(term, &["namespaces"]).is_empty() || term.get("namespaceSelector").is_some())
    })
}
