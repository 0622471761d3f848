//! DELETE of objects: preconditions, grace periods, finalizers, propagation to dependents.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::create::mark_deleting;
use super::update::nothing_holds;
use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::request::{DeleteOptions, Propagation};
use crate::state::{FOREGROUND, ORPHAN};
use crate::state::{ObjectRef, State};
use crate::storage::{Change, Filter, Stored};
use crate::write::WriteResult;

/// Default grace period of a pod (seconds).
const POD_GRACE_S: i64 = 30;

impl State {
    /// Deletes one object. An object with finalizers or a grace period is marked as being deleted.
    pub(crate) fn delete(
        &mut self,
        resource: &Resource,
        key: &str,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<WriteResult, ApiError> {
        let Some(live) = self.table(resource.table).get(key).cloned() else {
            let name = key.rsplit_once('/').map_or(key, |(_, name)| name);
            return Err(ApiError::not_found(resource, name));
        };
        let old = live.value();
        check_preconditions(resource, &live, &old, options)?;
        let mut object = (*old).clone();
        if resource.is("", "namespaces") {
            return self.delete_namespace(resource, &live, object, options, now);
        }
        let already_deleting = live.deleting;
        let grace_s = grace(resource, &object, options);
        hold_for_dependents(resource, &mut object, options);
        if already_deleting {
            shorten_grace(&mut object, grace_s, now);
        } else {
            mark_deleting(&mut object, now, grace_s);
        }
        if nothing_holds(&object) {
            if options.dry_run {
                return Ok(WriteResult::Gone(object));
            }
            let at = ObjectRef {
                table: resource.table,
                key: Arc::clone(&live.key),
            };
            if !already_deleting {
                // The object was never marked as being deleted: watches deliver its last state.
                object = Arc::unwrap_or_clone(old);
            }
            return Ok(WriteResult::Gone(self.erase(&at, object)));
        }
        if object == *old {
            return Ok(WriteResult::Stored(live, false));
        }
        if options.dry_run {
            return Ok(WriteResult::Draft(object, false));
        }
        let stored = self.commit(resource.table, Change::Modified, key, object);
        self.after_marking(resource, &stored);
        Ok(WriteResult::Stored(stored, false))
    }

    /// Deletes every object that the filter selects.
    pub(crate) fn delete_collection(
        &mut self,
        resource: &Resource,
        filter: &Filter,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<Vec<Arc<Stored>>, ApiError> {
        let table = self.table(resource.table);
        let chosen: Vec<Arc<Stored>> = table
            .range(filter.namespace.as_deref())
            .filter(|o| filter.matches(o))
            .cloned()
            .collect();
        for object in &chosen {
            match self.delete(resource, &object.key, options, now) {
                Err(error) if error.code != 404 => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
        Ok(chosen)
    }

    fn delete_namespace(
        &mut self,
        resource: &Resource,
        live: &Arc<Stored>,
        mut object: Value,
        options: &DeleteOptions,
        now: Timestamp,
    ) -> Result<WriteResult, ApiError> {
        if matches!(live.name(), "default" | "kube-system" | "kube-public") {
            return Err(ApiError::forbidden(
                resource,
                live.name(),
                "this namespace may not be deleted",
            ));
        }
        if live.deleting {
            return Ok(WriteResult::Stored(Arc::clone(live), false));
        }
        mark_deleting(&mut object, now, 0);
        json::take(&mut object, &["metadata", "deletionGracePeriodSeconds"]);
        json::set(&mut object, &["status", "phase"], "Terminating".into());
        if options.dry_run {
            return Ok(WriteResult::Draft(object, false));
        }
        let stored = self.commit(resource.table, Change::Modified, &live.key, object);
        self.gc
            .push_back(crate::state::GarbageTask::NamespaceMarked(live.name().to_owned()));
        Ok(WriteResult::Stored(stored, false))
    }
}

fn check_preconditions(
    resource: &Resource,
    live: &Stored,
    object: &Value,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let uid = json::text(object, &["metadata", "uid"]).unwrap_or_default();
    let version = live.version.to_string();
    for (what, wanted, found, why) in [
        ("UID", &options.uid, uid, "deleted and then recreated"),
        (
            "ResourceVersion",
            &options.resource_version,
            version.as_str(),
            "modified",
        ),
    ] {
        if let Some(wanted) = wanted
            && wanted != found
        {
            let why = format!(
                "the {what} in the precondition ({wanted}) does not match the {what} in record ({found}). The object might have \
                 been {why}"
            );
            // The real server names the kind here, not the resource.
            return Err(ApiError::conflict_about(
                &resource.qualified_kind(),
                &resource.kind,
                live.name(),
                &why,
            ));
        }
    }
    Ok(())
}

/// The grace period (seconds). Only pods that are bound and not finished have one.
fn grace(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if !resource.is("", "pods") {
        return 0;
    }
    let on_a_node = json::text(object, &["spec", "nodeName"]).is_some();
    let finished = matches!(json::text(object, &["status", "phase"]), Some("Succeeded" | "Failed"));
    if !on_a_node || finished {
        return 0;
    }
    let own = json::int(object, &["spec", "terminationGracePeriodSeconds"]).unwrap_or(POD_GRACE_S);
    match options.grace_s.unwrap_or(own) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}

/// A second DELETE can only shorten the grace period.
fn shorten_grace(object: &mut Value, grace_s: i64, now: Timestamp) {
    let current = json::int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
    if grace_s < current {
        let generation = json::at(object, &["metadata", "generation"]).clone();
        mark_deleting(object, now, grace_s);
        if !generation.is_null() {
            json::set(object, &["metadata", "generation"], generation);
        }
    }
}

/// Sets the finalizer of foreground or orphan deletion, which garbage collection removes.
fn hold_for_dependents(resource: &Resource, object: &mut Value, options: &DeleteOptions) {
    let policy = match options.propagation {
        Some(policy) => policy,
        None => {
            let held = json::items(object, &["metadata", "finalizers"]);
            if held.iter().any(|f| f == ORPHAN || f == FOREGROUND) {
                return;
            }
            if resource.rules.orphans_by_default {
                Propagation::Orphan
            } else {
                Propagation::Background
            }
        }
    };
    let wanted = match policy {
        Propagation::Background => None,
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Orphan => Some(ORPHAN),
    };
    let mut finalizers = json::items(object, &["metadata", "finalizers"]).to_vec();
    finalizers.retain(|f| f != ORPHAN && f != FOREGROUND);
    finalizers.extend(wanted.map(Value::from));
    if finalizers.is_empty() {
        json::take(object, &["metadata", "finalizers"]);
    } else {
        json::set(object, &["metadata", "finalizers"], Value::Array(finalizers));
    }
}
