//! Events under their two API groups: stored as core/v1, shown as events.k8s.io/v1 by renaming fields.

use serde_json::Value;

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

/// A stored event as events.k8s.io/v1 has it.
pub(crate) fn from_core(mut event: Value) -> Value {
    for (core, new) in RENAMED.iter().chain([&CONTROLLER]) {
        rename(&mut event, core, new);
    }
    json::set(&mut event, &["apiVersion"], "events.k8s.io/v1".into());
    event
}

/// An event of events.k8s.io/v1 as it is stored.
pub(crate) fn to_core(mut event: Value) -> Value {
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
