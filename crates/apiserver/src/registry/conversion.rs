//! Conversion between the stored version of an object and the version a resource serves.
//!
//! All versions of a resource have the same fields, with two exceptions. Events are stored as core/v1 and served as
//! events.k8s.io/v1 with renamed fields. Autoscalers are stored as autoscaling/v2; autoscaling/v1 has one target of CPU utilization instead
//! of a list of metrics.

use serde_json::{Value, json};

use super::resource::Resource;
use crate::json;

/// (core/v1, events.k8s.io/v1)
const RENAMED: [(&str, &str); 6] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];
const CONTROLLER: (&str, &str) = ("reportingComponent", "reportingController");

/// The annotation of an autoscaling/v1 autoscaler that holds the metrics and the behavior this version has no fields for.
const BEYOND_V1: &str = "autoscaling.alpha.kubernetes.io/v2-spec";

/// A stored object in the version of `resource`.
pub(crate) fn converted(resource: &Resource, mut value: Value) -> Value {
    if resource.is_new_event_view() {
        return from_core(value);
    }
    if resource.is_v1_autoscaler() {
        autoscaler_to_v1(&mut value);
    }
    json::set(&mut value, &["apiVersion"], resource.api_version().into());
    value
}

/// An object in the version of `resource` as it is stored.
pub(crate) fn stored_form(resource: &Resource, mut value: Value) -> Value {
    if resource.is_new_event_view() {
        return to_core(value);
    }
    if resource.is_v1_autoscaler() {
        autoscaler_to_v2(&mut value);
    }
    json::set(
        &mut value,
        &["apiVersion"],
        resource.storage_api_version.as_str().into(),
    );
    value
}

/// A stored event as events.k8s.io/v1 has it.
fn from_core(mut event: Value) -> Value {
    for (core, new) in RENAMED.iter().chain([&CONTROLLER]) {
        rename(&mut event, core, new);
    }
    json::set(&mut event, &["apiVersion"], "events.k8s.io/v1".into());
    event
}

/// An event of events.k8s.io/v1 as it is stored.
fn to_core(mut event: Value) -> Value {
    for (core, new) in RENAMED.iter().chain([&CONTROLLER]) {
        rename(&mut event, new, core);
    }
    json::set(&mut event, &["apiVersion"], "v1".into());
    event
}

fn rename(event: &mut Value, from: &str, to: &str) {
    if let Some(value) = json::take(event, &[from]) {
        json::set(event, &[to], value);
    }
}

/// Whether a metric of autoscaling/v2 is the CPU utilization, which autoscaling/v1 has a field for.
fn is_cpu_utilization(metric: &Value) -> bool {
    let resource = json::at(metric, &["resource"]);
    json::text(metric, &["type"]) == Some("Resource")
        && json::text(resource, &["name"]) == Some("cpu")
        && json::int(resource, &["target", "averageUtilization"]).is_some()
}

fn autoscaler_to_v1(autoscaler: &mut Value) {
    let mut metrics = json::items(autoscaler, &["spec", "metrics"]).to_vec();
    json::take(autoscaler, &["spec", "metrics"]);
    if let Some(at) = metrics.iter().position(is_cpu_utilization) {
        let cpu = metrics.remove(at);
        let target = json::at(&cpu, &["resource", "target", "averageUtilization"]).clone();
        json::set(autoscaler, &["spec", "targetCPUUtilizationPercentage"], target);
    }
    let mut beyond = json!({});
    if !metrics.is_empty() {
        json::set(&mut beyond, &["metrics"], Value::Array(metrics));
    }
    if let Some(behavior) = json::take(autoscaler, &["spec", "behavior"]) {
        json::set(&mut beyond, &["behavior"], behavior);
    }
    if beyond != json!({}) {
        json::set(
            autoscaler,
            &["metadata", "annotations", BEYOND_V1],
            beyond.to_string().into(),
        );
    }
}

fn autoscaler_to_v2(autoscaler: &mut Value) {
    let beyond = json::take(autoscaler, &["metadata", "annotations", BEYOND_V1]);
    if json::at(autoscaler, &["metadata", "annotations"]) == &json!({}) {
        json::take(autoscaler, &["metadata", "annotations"]);
    }
    let beyond: Value = beyond
        .and_then(|text| serde_json::from_str(text.as_str()?).ok())
        .unwrap_or_default();
    let mut metrics = json::items(&beyond, &["metrics"]).to_vec();
    if let Some(target) = json::take(autoscaler, &["spec", "targetCPUUtilizationPercentage"]) {
        let target = json!({"type": "Utilization", "averageUtilization": target});
        metrics.insert(
            0,
            json!({"type": "Resource", "resource": {"name": "cpu", "target": target}}),
        );
    }
    if !metrics.is_empty() {
        json::set(autoscaler, &["spec", "metrics"], Value::Array(metrics));
    }
    if let Some(behavior) = beyond.get("behavior") {
        json::set(autoscaler, &["spec", "behavior"], behavior.clone());
    }
}
