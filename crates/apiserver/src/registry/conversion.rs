//! Conversion between the stored version of an object and the version a resource serves.
//!
//! All versions of a resource have the same fields, except for events: they are stored as core/v1 and served as
//! events.k8s.io/v1 with renamed fields.

use serde_json::Value;

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

/// A stored object in the version of `resource`.
pub(crate) fn converted(resource: &Resource, mut value: Value) -> Value {
    if resource.is_new_event_view() {
        return from_core(value);
    }
    json::set(&mut value, &["apiVersion"], resource.api_version().into());
    value
}

/// An object in the version of `resource` as it is stored.
pub(crate) fn stored_form(resource: &Resource, mut value: Value) -> Value {
    if resource.is_new_event_view() {
        return to_core(value);
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
