//! Field ownership: calls server-side apply with the schema of the written resource.

use serde_json::{Value, json};

use crate::error::ApiError;
use crate::json;
use crate::patch::Gvk;
use crate::registry::Resource;
use crate::schema::CompiledVersion;
use crate::server_side_apply::{self, ApplyError, BuiltinSchema, MergeSchema, Writer};
use crate::write::{Part, WriteRequest};

/// Runs a function with the merge schema of a resource: that of its CRD, or the built-in one.
fn with_schema<T>(resource: &Resource, run: impl FnOnce(&dyn MergeSchema, &Gvk) -> T) -> T {
    let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
    let custom = resource
        .crd
        .as_ref()
        .and_then(|c| c.compiled.as_ref()?.version(&resource.version));
    match custom {
        Some(version) => run(version as &CompiledVersion, &gvk),
        None => run(&BuiltinSchema::of(&gvk), &gvk),
    }
}

fn writer<'a>(write: &WriteRequest<'a>) -> Writer<'a> {
    Writer {
        manager: write.manager,
        subresource: write.subresource,
        now: write.now,
    }
}

/// Removes the fields that the endpoint does not write from an applied configuration.
pub(crate) fn keep_part(resource: &Resource, part: Part, applied: &mut Value) {
    if !resource.status {
        return;
    }
    match part {
        Part::Main | Part::Internal => {
            json::take(applied, &["status"]);
        }
        Part::Status => {
            if let Value::Object(map) = applied {
                map.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
            }
        }
    }
}

/// The live object merged with the applied configuration, with updated `managedFields`.
pub(crate) fn merge(
    write: &WriteRequest<'_>,
    live: Option<&Value>,
    applied: &Value,
    force: bool,
) -> Result<Value, ApiError> {
    let resource = write.resource;
    let merged = with_schema(resource, |schema, gvk| {
        server_side_apply::server_side_apply(live, applied, writer(write), force, schema, gvk)
    });
    merged.map_err(|error| match &error {
        ApplyError::BadRequest(message) => ApiError::bad_request(message.clone()),
        ApplyError::Conflicts(conflicts) => {
            let causes = conflicts.iter().map(|c| {
                json!({
                    "reason": "FieldManagerConflict", "message": format!("conflict with {}", c.manager),
                    "field": c.field,
                })
            });
            ApiError::apply_conflict(error.to_string()).with_causes(causes.collect())
        }
    })
}

/// Updates `managedFields` after an ordinary write.
pub(crate) fn track(write: &WriteRequest<'_>, old: &Value, new: Value) -> Value {
    with_schema(write.resource, |schema, gvk| {
        server_side_apply::track_update(Some(old), new, writer(write), schema, gvk)
    })
}
