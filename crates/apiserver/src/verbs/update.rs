//! PUT of an object, and the second half of every patch.

use std::sync::Arc;

use serde_json::Value;

use super::ownership;
use crate::admission;
use crate::error::ApiError;
use crate::json;
use crate::registry::{Resource, stored_form};
use crate::schema::{ErrorKind, FieldError};
use crate::server_side_apply;
use crate::state::{ObjectRef, State};
use crate::storage::{Change, Stored};
use crate::write::{Part, WriteRequest, WriteResult};

impl State {
    /// Replaces an object, or its status, by the object of the request.
    pub(crate) fn update(
        &mut self,
        write: &mut WriteRequest<'_>,
        name: &str,
        mut new: Value,
        part: Part,
    ) -> Result<WriteResult, ApiError> {
        let resource = write.resource;
        admission::envelope(resource, write.namespace, Some(name), &mut new)?;
        let key = resource.key(write.namespace, name);
        let Some(live) = self.table(resource.table).get(&key).cloned() else {
            if resource.rules.create_on_update && part == Part::Main {
                return self.create(write, Some(name), new);
            }
            return Err(ApiError::not_found(resource, name));
        };
        if json::text(&new, &["metadata", "resourceVersion"]).is_none() && !resource.rules.unconditional_update {
            let why = "must be specified for an update";
            let cause = FieldError::invalid("metadata.resourceVersion", &0.into(), why);
            return Err(ApiError::invalid(resource, name, &[cause]));
        }
        let old = live.value();
        self.replace(write, &live, &old, new, part)
    }

    /// Puts `new` in the place of `live`, whose parsed form is `old`: checks preconditions, keeps what the caller may not
    /// change, admits, counts the generation, and removes the object when nothing holds it any more.
    pub(crate) fn replace(
        &mut self,
        write: &mut WriteRequest<'_>,
        live: &Arc<Stored>,
        old: &Value,
        mut new: Value,
        part: Part,
    ) -> Result<WriteResult, ApiError> {
        let resource = write.resource;
        check_preconditions(resource, live, &new, old)?;
        keep_server_fields(old, &mut new);
        match part {
            Part::Main if resource.status => json::copy(old, &mut new, &["status"]),
            Part::Status => new = only_status(resource, old, new),
            Part::Main | Part::Internal => {}
        }
        if part != Part::Internal {
            admission::update(self, write, &mut new, old, part)?;
        }
        no_new_finalizers(resource, live, old, &new)?;
        if part != Part::Internal {
            count_generation(resource, old, &mut new);
        }
        new = stored_form(resource, new);
        if !write.applied {
            json::copy(old, &mut new, &["metadata", "managedFields"]);
            // Only applied objects have managedFields; the first apply creates them.
            if server_side_apply::was_applied(old) {
                new = ownership::track(write, old, new);
            }
        }

        if live.deleting && nothing_holds(&new) {
            if write.dry_run {
                return Ok(WriteResult::Gone(new));
            }
            let at = ObjectRef {
                table: resource.table,
                key: Arc::clone(&live.key),
            };
            return Ok(WriteResult::Gone(self.erase(&at, new)));
        }
        // An update that changes nothing writes nothing: no version, no event.
        if new == *old {
            return Ok(WriteResult::Stored(Arc::clone(live), false));
        }
        if write.dry_run {
            return Ok(WriteResult::Draft(new, false));
        }
        Ok(WriteResult::Stored(
            self.commit(resource.table, Change::Modified, &live.key, new),
            false,
        ))
    }
}

/// Checks that resource version and uid of the new object, if it has them, are those of the live one. The error is a conflict.
fn check_preconditions(resource: &Resource, live: &Stored, new: &Value, old: &Value) -> Result<(), ApiError> {
    if let Some(version) = json::text(new, &["metadata", "resourceVersion"])
        && version != live.version.to_string()
    {
        return Err(ApiError::stale(resource, live.name()));
    }
    let live_uid = json::text(old, &["metadata", "uid"]).unwrap_or_default();
    if let Some(uid) = json::text(new, &["metadata", "uid"])
        && uid != live_uid
    {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {live_uid}");
        return Err(ApiError::conflict(resource, live.name(), &why));
    }
    Ok(())
}

/// Restores the fields that a client's update cannot change.
fn keep_server_fields(old: &Value, new: &mut Value) {
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "generation",
        "generateName",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        json::copy(old, new, &["metadata", field]);
    }
    json::take(new, &["metadata", "selfLink"]);
    if new.pointer("/metadata/managedFields").is_none() {
        json::copy(old, new, &["metadata", "managedFields"]);
    }
}

/// The new object with everything but its status from the old one. Equal fields stay in place, which saves copies.
fn only_status(resource: &Resource, old: &Value, mut new: Value) -> Value {
    let through: &[&str] = match resource.rules.metadata_through_status {
        true => &["managedFields", "labels", "annotations"],
        false => &["managedFields"],
    };
    let passed: Vec<(&str, Option<Value>)> = through
        .iter()
        .map(|field| (*field, json::take(&mut new, &["metadata", field])))
        .collect();
    let fields = json::object_mut(&mut new, &[]);
    let empty = serde_json::Map::new();
    let before = old.as_object().unwrap_or(&empty);
    fields.retain(|key, _| key == "status" || before.contains_key(key));
    for (key, value) in before.iter().filter(|(key, _)| *key != "status") {
        if fields.get(key) != Some(value) {
            fields.insert(key.clone(), value.clone());
        }
    }
    for (field, value) in passed {
        match value {
            Some(value) if !value.is_null() => json::set(&mut new, &["metadata", field], value),
            Some(_) | None => drop(json::take(&mut new, &["metadata", field])),
        }
    }
    new
}

/// Refuses finalizers that are added to an object that is being deleted.
fn no_new_finalizers(resource: &Resource, live: &Stored, old: &Value, new: &Value) -> Result<(), ApiError> {
    if !live.deleting {
        return Ok(());
    }
    let before = json::items(old, &["metadata", "finalizers"]);
    let added: Vec<String> = json::items(new, &["metadata", "finalizers"])
        .iter()
        .filter(|f| !before.contains(f))
        .map(Value::to_string)
        .collect();
    if added.is_empty() {
        return Ok(());
    }
    let why = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    Err(ApiError::invalid(
        resource,
        live.name(),
        &[FieldError::new(ErrorKind::Forbidden, "metadata.finalizers", None, why)],
    ))
}

/// The fields whose changes increase the generation.
fn counted<'a>(resource: &'a Resource, object: &'a Value) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let fields = object.as_object().into_iter().flatten();
    fields.filter(|(key, _)| match key.as_str() {
        "metadata" | "apiVersion" | "kind" => false,
        "status" => resource.crd.is_some() && !resource.status,
        key => resource.crd.is_some() || matches!(key, "spec" | "template"),
    })
}

/// Built-in kinds count changes of the spec, or of the template of a PodTemplate; custom resources those of everything but metadata and status.
fn count_generation(resource: &Resource, old: &Value, new: &mut Value) {
    if !resource.rules.generation {
        return;
    }
    if counted(resource, old).ne(counted(resource, new)) {
        let generation = json::int(old, &["metadata", "generation"]).unwrap_or(0) + 1;
        json::set(new, &["metadata", "generation"], generation.into());
    }
}

/// Whether an object that is being deleted can be removed: it has no finalizer and no grace period.
pub(crate) fn nothing_holds(object: &Value) -> bool {
    json::items(object, &["metadata", "finalizers"]).is_empty()
        && json::int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) == 0
        // Namespaces have finalizers of their own, in the spec.
        && (json::text(object, &["kind"]) != Some("Namespace")
            || json::items(object, &["spec", "finalizers"]).is_empty())
}
