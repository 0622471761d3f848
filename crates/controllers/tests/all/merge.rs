//! Changing JSON as a merge patch does (RFC 7386).

use serde_json::{Value, json};

/// Puts `patch` over `target`.
pub(crate) fn merge(target: &mut Value, patch: Value) {
    match patch {
        Value::Object(patch) => {
            if !target.is_object() {
                *target = json!({});
            }
            for (key, value) in patch {
                match target.as_object_mut() {
                    Some(object) if value.is_null() => drop(object.remove(&key)),
                    _ => merge(&mut target[key], value),
                }
            }
        }
        other => *target = other,
    }
}
