//! Identity of a written object: apiVersion, kind, namespace and name agree with the URL.

use serde_json::Value;

use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;

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

/// Sets namespace and name of the object from the request, or checks that they agree.
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
