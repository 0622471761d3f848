//! Defaults and validation of one object that is created or changed.

use serde_json::Value;

use super::checks::Checks;
use super::{cluster, definitions, meta, pod, resource_quota, typed, workload};
use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::schema::{CompiledCrd, CompiledVersion, FieldError};
use crate::state::State;
use crate::write::{Part, WriteRequest};

/// Defaults and validates a new object.
pub(crate) fn create(state: &mut State, write: &mut WriteRequest<'_>, object: &mut Value) -> Result<(), ApiError> {
    let resource = write.resource;
    let mut checks = Checks::default();
    if let Some(version) = schema_of(resource) {
        typed::metadata(resource, object)?;
        let warnings = version
            .admit_create(object, write.validation)
            .map_err(|e| refused(resource, object, &with_scale(resource, object, e)))?;
        write.warnings.extend(warnings);
        checks.0 = with_scale(resource, object, Vec::new());
    } else {
        write.warnings.extend(typed::shape(resource, object, write.validation)?);
        default_new(state, resource, object)?;
        judge(resource, object, None, &mut checks)?;
    }
    meta::validate(resource, object, &mut checks.0);
    if checks.0.is_empty() {
        resource_quota::admit(state, resource, object)
    } else {
        Err(refused(resource, object, &checks.0))
    }
}

/// Sets the defaults of a built-in object that is created.
fn default_new(state: &mut State, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    let kind = resource.kind.as_str();
    if resource.is("", "pods") {
        pod::admit(state, resource, object)?;
    }
    workload::default(kind, object);
    cluster::default(state, resource, object);
    if kind == "Job" {
        workload::own_job_selector(object);
    }
    if let Some(status) = workload::first_status(kind).or_else(|| cluster::first_status(kind)) {
        json::set(object, &["status"], status);
    }
    if resource.is("", "resourcequotas") {
        let status = state.quota_status(object);
        json::set(object, &["status"], status);
    }
    if kind == "CustomResourceDefinition" {
        let now = json::text(object, &["metadata", "creationTimestamp"])
            .unwrap_or_default()
            .to_owned();
        let status = definitions::established(object, &now);
        json::set(object, &["status"], status);
    }
    Ok(())
}

/// Defaults and validates a changed object.
pub(crate) fn update(
    state: &mut State,
    write: &mut WriteRequest<'_>,
    new: &mut Value,
    old: &Value,
    part: Part,
) -> Result<(), ApiError> {
    let resource = write.resource;
    let mut checks = Checks::default();
    if let Some(version) = schema_of(resource) {
        typed::metadata(resource, new)?;
        let warnings = version
            .admit_update(new, old, write.validation)
            .map_err(|e| refused(resource, new, &with_scale(resource, new, e)))?;
        write.warnings.extend(warnings);
        checks.0 = with_scale(resource, new, Vec::new());
    } else {
        write.warnings.extend(typed::shape(resource, new, write.validation)?);
        // The status that kubelets and controllers write is not validated.
        if part == Part::Main {
            default_changed(state, resource, new);
            if resource.is("", "resourcequotas") && new.get("spec") != old.get("spec") {
                let status = state.quota_status(new);
                json::set(new, &["status"], status);
            }
            judge(resource, new, Some(old), &mut checks)?;
        }
    }
    meta::validate(resource, new, &mut checks.0);
    if checks.0.is_empty() {
        Ok(())
    } else {
        Err(refused(resource, new, &checks.0))
    }
}

/// Sets the defaults of a built-in object that is updated.
fn default_changed(state: &mut State, resource: &Resource, object: &mut Value) {
    if resource.is("", "pods")
        && let Some(spec) = object.get_mut("spec")
    {
        pod::default_spec(spec);
        json::default(json::object_mut(spec, &[]), "enableServiceLinks", true);
    }
    workload::default(&resource.kind, object);
    cluster::default(state, resource, object);
    if resource.kind == "CustomResourceDefinition" {
        definitions::refresh_status(object);
    }
}

/// The rules of built-in kinds.
fn judge(resource: &Resource, object: &Value, old: Option<&Value>, checks: &mut Checks) -> Result<(), ApiError> {
    let kind = resource.kind.as_str();
    typed::required(resource, object, &mut checks.0);
    if resource.is("", "pods") {
        pod::validate_spec("spec", json::at(object, &["spec"]), checks);
        if let Some(old) = old {
            pod::validate_update(object, old, checks);
        }
    }
    workload::validate(kind, object, old, checks);
    cluster::validate(kind, object, old, checks);
    if kind == "CustomResourceDefinition" {
        CompiledCrd::shared(object).map_err(|e| refused(resource, object, &e))?;
    }
    Ok(())
}

/// Adds errors for negative counts of the scale subresource, which no schema has to declare. Paths are written as in the definition.
fn with_scale(resource: &Resource, object: &Value, mut errors: Vec<FieldError>) -> Vec<FieldError> {
    let Some(scale) = &resource.scale else {
        return errors;
    };
    for path in [&scale.spec_replicas, &scale.status_replicas] {
        let steps: Vec<&str> = path.split('.').collect();
        let count = json::at(object, &steps);
        if count.as_i64().is_some_and(|count| count < 0) {
            errors.push(FieldError::invalid(
                &format!(".{path}"),
                count,
                "should be a non-negative integer",
            ));
        }
    }
    errors
}

fn schema_of(resource: &Resource) -> Option<&CompiledVersion> {
    resource.crd.as_ref()?.compiled.as_ref()?.version(&resource.version)
}

fn refused(resource: &Resource, object: &Value, errors: &[FieldError]) -> ApiError {
    if let Some(message) = FieldError::strict_decoding_message(errors) {
        return typed::undecodable(resource, &message);
    }
    let name = json::text(object, &["metadata", "name"]).unwrap_or_default();
    ApiError::invalid(resource, name, errors)
}
