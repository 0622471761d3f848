//! What happens to an object before it is stored: identity checks, defaults, validation.

mod cluster;
mod meta;
mod pod;
mod quantity;
mod selector;
mod typed;
mod workload;

use serde_json::Value;

use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;
use crate::schema::{CompiledCrd, CompiledVersion, ErrorKind, FieldError};
use crate::state::State;
use crate::verbs::{Part, Write};

/// Checks that the object is one of `resource` and belongs where the URL says, and fills in what the URL knows.
pub(crate) fn envelope(
    resource: &Resource,
    namespace: &str,
    name: Option<&str>,
    object: &mut Value,
) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the body of the request is no {} object",
            resource.kind
        )));
    }
    let api_version = resource.api_version();
    match json::text(object, &["apiVersion"]) {
        None => json::set(object, &["apiVersion"], api_version.as_str().into()),
        Some(found) if found == api_version => {}
        Some(found) => {
            return Err(ApiError::bad_request(format!(
                "the API version in the data ({found}) does not match the expected API version ({api_version})"
            )));
        }
    }
    match json::text(object, &["kind"]) {
        None => json::set(object, &["kind"], resource.kind.as_str().into()),
        Some(found) if found == resource.kind => {}
        Some(found) => {
            return Err(ApiError::bad_request(format!(
                "{found} in version {api_version:?} cannot be handled as a {}: kind does not match the URL",
                resource.kind
            )));
        }
    }
    if !json::at(object, &["metadata"]).is_null() && !json::at(object, &["metadata"]).is_object() {
        return Err(ApiError::bad_request(format!(
            "metadata of a {} must be an object",
            resource.kind
        )));
    }
    envelope_identity(resource, namespace, name, object)
}

fn envelope_identity(
    resource: &Resource,
    namespace: &str,
    name: Option<&str>,
    object: &mut Value,
) -> Result<(), ApiError> {
    if resource.namespaced {
        match json::text(object, &["metadata", "namespace"]) {
            None => json::set(object, &["metadata", "namespace"], namespace.into()),
            Some(found) if found == namespace => {}
            Some(_) => {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
        }
    } else {
        json::take(object, &["metadata", "namespace"]);
    }
    let Some(name) = name else {
        return Ok(());
    };
    match json::text(object, &["metadata", "name"]) {
        None => json::set(object, &["metadata", "name"], name.into()),
        Some(found) if found == name => {}
        Some(found) => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({found}) does not match the name on the URL ({name})"
            )));
        }
    }
    Ok(())
}

/// Defaults and validates a new object.
pub(crate) fn create(state: &mut State, write: &mut Write<'_>, object: &mut Value) -> Result<(), ApiError> {
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
        Ok(())
    } else {
        Err(refused(resource, object, &checks.0))
    }
}

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
    if kind == "CustomResourceDefinition" {
        let now = json::text(object, &["metadata", "creationTimestamp"])
            .unwrap_or_default()
            .to_owned();
        let status = crate::crd::established(object, &now);
        json::set(object, &["status"], status);
    }
    Ok(())
}

/// Defaults and validates a changed object.
pub(crate) fn update(
    state: &mut State,
    write: &mut Write<'_>,
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
        // The kubelet's and the controllers' writes: their status is theirs.
        if part == Part::Main {
            default_changed(state, resource, new);
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
        crate::crd::refresh_status(object);
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

/// Adds what the scale subresource asks of its counts whatever the schema says. The paths are told as definitions write them.
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

/// Collects what is wrong with an object.
#[derive(Debug, Default)]
pub(crate) struct Checks(pub(crate) Vec<FieldError>);

impl Checks {
    fn required(&mut self, path: &str) {
        // The type table may have asked for it already.
        if !self.0.iter().any(|e| e.path == path) {
            self.0.push(FieldError::required(path, ""));
        }
    }

    fn invalid(&mut self, path: &str, value: &Value, why: &str) {
        self.0.push(FieldError::invalid(path, value, why));
    }

    fn duplicate(&mut self, path: &str, value: &Value) {
        self.0
            .push(FieldError::new(ErrorKind::Duplicate, path, Some(value.clone()), ""));
    }

    fn forbidden(&mut self, path: &str, why: &str) {
        self.0.push(FieldError::new(ErrorKind::Forbidden, path, None, why));
    }

    fn not_found(&mut self, path: &str, name: &str) {
        self.0.push(FieldError::new(
            ErrorKind::Invalid,
            path,
            Some(name.into()),
            "not found",
        ));
    }

    /// `field` of `object` is one of these, when set.
    fn one_of(&mut self, path: &str, object: &Value, field: &str, supported: &[&str]) {
        let value = json::at(object, &[field]);
        let Some(text) = value.as_str() else {
            return;
        };
        let at = if path.is_empty() {
            field.to_owned()
        } else {
            format!("{path}.{field}")
        };
        let known = self.0.iter().any(|e| e.path == at);
        // An empty effect is any effect.
        let fine = supported.contains(&text) || (text.is_empty() && field == "effect");
        if !fine && !known {
            let supported: Vec<Value> = supported.iter().map(|s| Value::from(*s)).collect();
            self.0.push(FieldError::not_supported(&at, value, &supported));
        }
    }

    fn not_negative(&mut self, path: &str, object: &Value, field: &str) {
        let value = json::at(object, &[field]);
        if value.as_i64().is_some_and(|n| n < 0) {
            self.invalid(&format!("{path}.{field}"), value, "must be greater than or equal to 0");
        }
    }

    fn label_name(&mut self, path: &str, name: &str) {
        if !name.is_empty()
            && let Err(why) = meta::dns_label(name)
        {
            self.invalid(path, &name.into(), &why);
        }
    }

    /// Top-level fields that may not change.
    fn unchanged(&mut self, object: &Value, old: Option<&Value>, fields: &[&str]) {
        let Some(old) = old else {
            return;
        };
        for field in fields {
            if json::at(object, &[field]) != json::at(old, &[field]) {
                self.forbidden(field, "updates are forbidden.");
            }
        }
    }
}
