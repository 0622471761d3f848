//! POST of an object.

use serde_json::Value;

use crate::admission;
use crate::error::ApiError;
use crate::json;
use crate::registry::stored_form;
use crate::schema::FieldError;
use crate::state::{State, seconds};
use crate::storage::Change;
use crate::write::{WriteRequest, WriteResult};

/// Longest prefix of a generated name: the suffix must fit into a label value's 63 bytes.
const GENERATED_PREFIX_MAX: usize = 58;

impl State {
    /// Creates `object`. `name` is given when the URL named it (an apply or PUT of a missing object).
    pub(crate) fn create(
        &mut self,
        write: &mut WriteRequest<'_>,
        name: Option<&str>,
        mut object: Value,
    ) -> Result<WriteResult, ApiError> {
        let resource = write.resource;
        admission::envelope(resource, write.namespace, name, &mut object)?;
        self.name_object(write, &mut object)?;
        let name = json::text(&object, &["metadata", "name"])
            .unwrap_or_default()
            .to_owned();
        if json::text(&object, &["metadata", "resourceVersion"]).is_some() {
            // The real server's answer: an error without a reason.
            return Err(ApiError::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        self.namespace_takes_objects(write, &name)?;
        let key = resource.key(write.namespace, &name);
        if self.table(resource.table).get(&key).is_some() {
            return Err(ApiError::already_exists(resource, &name));
        }
        self.stamp(&mut object, write.now);
        strip_server_fields(&mut object);
        if resource.rules.generation {
            json::set(&mut object, &["metadata", "generation"], 1.into());
        }
        if resource.status && !resource.rules.keep_status_on_create {
            json::take(&mut object, &["status"]);
        }
        if resource.is("", "nodes") {
            admission::taint_new_node(&mut object);
        }
        admission::create(self, write, &mut object)?;
        object = stored_form(resource, object);
        if write.dry_run {
            return Ok(WriteResult::Draft(object, true));
        }
        Ok(WriteResult::Stored(
            self.commit(resource.table, Change::Added, &key, object),
            true,
        ))
    }

    /// Generates the name of an object that has only `generateName`. An error if it has neither.
    fn name_object(&mut self, write: &WriteRequest<'_>, object: &mut Value) -> Result<(), ApiError> {
        if json::text(object, &["metadata", "name"]).is_some() {
            return Ok(());
        }
        let Some(prefix) = json::text(object, &["metadata", "generateName"]) else {
            let cause = FieldError::required("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(write.resource, "", &[cause]));
        };
        let prefix: String = prefix.chars().take(GENERATED_PREFIX_MAX).collect();
        let name = loop {
            let name = format!("{prefix}{}", self.random.name_suffix());
            if self
                .table(write.resource.table)
                .get(&write.resource.key(write.namespace, &name))
                .is_none()
            {
                break name;
            }
        };
        json::set(object, &["metadata", "name"], name.into());
        Ok(())
    }

    /// Refuses an object whose namespace does not exist or is being deleted.
    fn namespace_takes_objects(&self, write: &WriteRequest<'_>, name: &str) -> Result<(), ApiError> {
        if !write.resource.namespaced {
            return Ok(());
        }
        let Some(namespace) = self.find("", "namespaces", write.namespace) else {
            return match self.registry.get("", "v1", "namespaces") {
                Some(namespaces) => Err(ApiError::not_found(&namespaces, write.namespace)),
                None => Err(ApiError::no_such_path()),
            };
        };
        if namespace.deleting {
            let why = format!(
                "unable to create new content in namespace {} because it is being terminated",
                write.namespace
            );
            let cause = serde_json::json!({
                "reason": "NamespaceTerminating",
                "message": format!("namespace {} is being terminated", write.namespace),
                "field": "metadata.namespace",
            });
            return Err(ApiError::forbidden(write.resource, name, &why).with_causes(vec![cause]));
        }
        Ok(())
    }
}

/// Removes the fields that only the server may set.
fn strip_server_fields(object: &mut Value) {
    for field in [
        "selfLink",
        "generation",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        json::take(object, &["metadata", field]);
    }
    if json::items(object, &["metadata", "managedFields"]).is_empty() {
        json::take(object, &["metadata", "managedFields"]);
    }
}

/// Marks an object as being deleted, `grace_s` seconds from now.
pub(crate) fn mark_deleting(object: &mut Value, now: jiff::Timestamp, grace_s: i64) {
    let at = now.checked_add(jiff::SignedDuration::from_secs(grace_s)).unwrap_or(now);
    json::set(object, &["metadata", "deletionTimestamp"], seconds(at).into());
    json::set(object, &["metadata", "deletionGracePeriodSeconds"], grace_s.into());
    if let Some(generation) = json::int(object, &["metadata", "generation"]).filter(|g| *g > 0) {
        json::set(object, &["metadata", "generation"], (generation + 1).into());
    }
}
