//! PATCH in its four formats.

use serde_json::Value;

use super::ownership;
use crate::error::ApiError;
use crate::patch::{self, Gvk, PatchKind};
use crate::registry::converted;
use crate::state::State;
use crate::write::{Part, WriteRequest, WriteResult};

/// A patch as the client sent it.
#[derive(Debug)]
pub(crate) enum PatchBody {
    Json(Value),
    Merge(Value),
    Strategic(Value),
    Apply { object: Value, force: bool },
}

impl PatchBody {
    /// Reads the body by its content type.
    pub(crate) fn parse(content_type: &str, bytes: &[u8], force: bool) -> Result<Self, ApiError> {
        let media_type = content_type.split(';').next().unwrap_or_default().trim();
        let json = || -> Result<Value, ApiError> {
            serde_json::from_slice(bytes).map_err(|e| ApiError::bad_request(format!("error decoding patch: {e}")))
        };
        match media_type {
            "application/json-patch+json" => Ok(Self::Json(json()?)),
            "application/merge-patch+json" => Ok(Self::Merge(json()?)),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic(json()?)),
            "application/apply-patch+yaml" | "application/apply-patch+json" => {
                let object = match serde_json::from_slice(bytes) {
                    Ok(object) => object,
                    Err(_) => serde_saphyr::from_slice(bytes)
                        .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")))?,
                };
                Ok(Self::Apply { object, force })
            }
            _ => Err(ApiError::unsupported_media_type()),
        }
    }
}

impl State {
    /// Patches an object or its status.
    pub(crate) fn patch(
        &mut self,
        write: &mut WriteRequest<'_>,
        name: &str,
        body: PatchBody,
        part: Part,
    ) -> Result<WriteResult, ApiError> {
        let resource = write.resource;
        let gvk = Gvk::new(&resource.group, &resource.version, &resource.kind);
        let (kind, patch) = match body {
            PatchBody::Apply { object, force } => return self.apply(write, name, object, force, part),
            PatchBody::Strategic(_) if resource.crd.is_some() => {
                return Err(ApiError::no_strategic_merge());
            }
            PatchBody::Json(patch) => (PatchKind::Json, patch),
            PatchBody::Merge(patch) => (PatchKind::Merge, patch),
            PatchBody::Strategic(patch) => (PatchKind::Strategic, patch),
        };
        let key = resource.key(write.namespace, name);
        let Some(live) = self.table(resource.table).get(&key).cloned() else {
            return Err(ApiError::not_found(resource, name));
        };
        let old = live.value();
        let target = converted(resource, (*old).clone());
        let mut new = patch::apply_patch(kind, target, &patch, &gvk).map_err(|e| patch_error(&e))?;
        crate::admission::envelope(resource, write.namespace, Some(name), &mut new)?;
        self.replace(write, &live, &old, new, part)
    }

    /// Server-side apply: creates what is missing.
    fn apply(
        &mut self,
        write: &mut WriteRequest<'_>,
        name: &str,
        mut object: Value,
        force: bool,
        part: Part,
    ) -> Result<WriteResult, ApiError> {
        let resource = write.resource;
        crate::admission::envelope(resource, write.namespace, Some(name), &mut object)?;
        ownership::keep_part(resource, part, &mut object);
        write.applied = true;
        let key = resource.key(write.namespace, name);
        let Some(live) = self.table(resource.table).get(&key).cloned() else {
            if part != Part::Main {
                return Err(ApiError::not_found(resource, name));
            }
            let merged = ownership::merge(write, None, &object, force)?;
            return self.create(write, Some(name), merged);
        };
        let old = live.value();
        let target = converted(resource, (*old).clone());
        let merged = ownership::merge(write, Some(&target), &object, force)?;
        self.replace(write, &live, &old, merged, part)
    }
}

fn patch_error(error: &patch::PatchError) -> ApiError {
    let reason = match error.status() {
        422 => "Invalid",
        _ => "BadRequest",
    };
    match error {
        // The real server does not say which operation failed.
        patch::PatchError::Invalid(_) => {
            let message = "the server rejected our request due to an error in our request";
            ApiError::new(error.status(), reason, message).with_empty_details()
        }
        _ => ApiError::new(error.status(), reason, error.to_string()),
    }
}
