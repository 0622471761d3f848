//! Apply, and the field ownership of ordinary writes.

use jiff::Timestamp;
use serde_json::Value;
use thiserror::Error;

use super::field_set::FieldSet;
use super::managed_fields::{Managers, Operation};
use super::merge_schema::{self, MergeSchema};
use super::{compare, merge};
use crate::patch::Gvk;

/// The owner of everything in an object that had no `managedFields` when it was first applied to.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// Where client-side apply keeps what it applied.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A field another manager owns with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conflict {
    /// The other manager as messages show it, as in `"kubectl" using apps/v1`.
    pub(crate) manager: String,
    /// The field, as in `.spec.replicas`.
    pub(crate) field: String,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum ApplyError {
    /// Other managers own these fields with other values (409).
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
    /// The applied configuration is malformed (400).
    #[error("{0}")]
    BadRequest(String),
}

/// The message of a conflict status, as the real server words it.
fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            only.manager, only.field
        );
    }
    let mut managers: Vec<&str> = conflicts.iter().map(|c| c.manager.as_str()).collect();
    managers.sort_unstable();
    managers.dedup();
    let mut lines = Vec::new();
    for manager in managers {
        lines.push(format!("conflicts with {manager}:"));
        lines.extend(
            conflicts
                .iter()
                .filter(|c| c.manager == manager)
                .map(|c| format!("- {}", c.field)),
        );
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The manager of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'a> {
    /// The field manager.
    pub(crate) manager: &'a str,
    /// The subresource written through, empty for the object itself.
    pub(crate) subresource: &'a str,
    /// When.
    pub(crate) now: Timestamp,
}

/// Merges what `writer` applies into the live object; fields it applied before and no longer does are removed unless
/// another manager owns them. Without `force`, a field that another manager owns with another value is a conflict.
pub(crate) fn server_side_apply(
    live: Option<&Value>,
    applied: &Value,
    writer: Writer<'_>,
    force: bool,
    schema: &dyn MergeSchema,
    gvk: &Gvk,
) -> Result<Value, ApplyError> {
    if applied.pointer("/metadata/managedFields").is_some_and(|m| !m.is_null()) {
        return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
    }
    let root = schema.root();
    merge::check_keys(applied, root, "").map_err(|reason| {
        ApplyError::BadRequest(format!(
            "failed to create typed patch object ({}): {reason}",
            gvk.api_version()
        ))
    })?;
    let empty = Value::Object(serde_json::Map::new());
    let mut old = live.cloned().unwrap_or(empty);
    let mut managers = Managers::take(&mut old);
    if live.is_some() && managers.is_empty() {
        let everything = compare::everything(&old, root).without_identity();
        managers.set(
            BEFORE_FIRST_APPLY,
            Operation::Update,
            &gvk.api_version(),
            "",
            everything,
            writer.now,
        );
    }
    let owned = compare::applied_fields(applied, root).without_identity();
    let before = managers
        .owned_by_applier(writer.manager, writer.subresource)
        .cloned()
        .unwrap_or_default();
    managers.set(
        writer.manager,
        Operation::Apply,
        &gvk.api_version(),
        writer.subresource,
        owned,
        writer.now,
    );
    let mut merged = merge::merged(&old, applied, root);
    let kept = managers.all_owned();
    merge::remove(&mut merged, root, &before.difference(&kept), &kept);

    let difference = compare::compare(&old, &merged, root);
    let changed = difference.changed.without_identity();
    let disputed = changed.difference(&client_side_applied(&old, writer.manager, root));
    let conflicts = managers.conflicts(writer.manager, writer.subresource, &disputed);
    if !force && !conflicts.is_empty() {
        return Err(ApplyError::Conflicts(conflicts));
    }
    managers.give_up(
        writer.manager,
        Operation::Apply,
        writer.subresource,
        &changed,
        &difference.removed,
        writer.now,
    );
    managers.put(&mut merged);
    Ok(merged)
}

/// The fields of kubectl's last client-side apply: its change to server-side apply is no conflict.
fn client_side_applied(live: &Value, manager: &str, root: merge_schema::MergeNode<'_>) -> FieldSet {
    let last = live
        .pointer("/metadata/annotations")
        .and_then(|a| a.get(LAST_APPLIED))
        .and_then(Value::as_str);
    match last.and_then(|text| serde_json::from_str(text).ok()) {
        Some(last) if manager == "kubectl" => compare::applied_fields(&last, root),
        _ => FieldSet::default(),
    }
}

/// The `managedFields` of `new` after an ordinary write (create, update, patch) changed `old` into it. Returns `new` with
/// updated `managedFields`; the caller stores it.
///
/// A caller that wants to save memory may skip this for objects without a server-side apply ([`was_applied`]): the first apply
/// then gives the ownership of all fields to one manager, as the real server does.
pub(crate) fn track_update(
    old: Option<&Value>,
    mut new: Value,
    writer: Writer<'_>,
    schema: &dyn MergeSchema,
    gvk: &Gvk,
) -> Value {
    let root = schema.root();
    let mut old = old.cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let mut managers = Managers::take(&mut old);
    // An explicitly empty managedFields list resets the ownership; an absent one keeps it.
    let sent = new
        .pointer("/metadata/managedFields")
        .and_then(Value::as_array)
        .map(Vec::len);
    Managers::take(&mut new);
    if sent == Some(0) {
        managers = Managers::default();
    }
    let difference = compare::compare(&old, &new, root);
    let (changed, removed) = (
        difference.changed.without_identity(),
        difference.removed.without_identity(),
    );
    if !changed.is_empty() || !removed.is_empty() {
        let api_version = gvk.api_version();
        managers.add(
            writer.manager,
            &api_version,
            writer.subresource,
            &changed,
            &removed,
            writer.now,
        );
        managers.give_up(
            writer.manager,
            Operation::Update,
            writer.subresource,
            &changed,
            &removed,
            writer.now,
        );
    }
    managers.put(&mut new);
    new
}

/// Whether server-side apply was ever used on this object.
pub(crate) fn was_applied(object: &Value) -> bool {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    entries.is_some_and(|e| {
        e.iter()
            .any(|entry| entry.get("operation").and_then(Value::as_str) == Some("Apply"))
    })
}

impl FieldSet {
    /// Without the fields that identify an object or that only the server writes: they have no owner.
    fn without_identity(&self) -> FieldSet {
        let mut identity = FieldSet::default();
        for field in ["f:apiVersion", "f:kind", "f:metadata"] {
            identity.insert(&[field]);
        }
        for field in [
            "name",
            "namespace",
            "creationTimestamp",
            "selfLink",
            "uid",
            "generation",
            "managedFields",
            "resourceVersion",
        ] {
            identity.insert(&["f:metadata", &format!("f:{field}")]);
        }
        self.difference(&identity)
    }
}
