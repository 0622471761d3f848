//! The scale subresource of workloads, and of custom resources that define its paths.

use http::Method;
use serde_json::{Value, json};

use super::Target;
use crate::error::ApiError;
use crate::handlers::answer::Answer;
use crate::handlers::call::Call;
use crate::json;
use crate::patch::{self, Gvk, PatchKind};
use crate::registry::ScalePaths;
use crate::schema::FieldError;
use crate::state::State;
use crate::storage::LabelSelector;
use crate::verbs::PatchBody;
use crate::write::Part;

/// Reads or sets the number of replicas.
pub(crate) fn answer(
    state: &mut State,
    call: &Call<'_>,
    at: &Target<'_>,
    paths: &ScalePaths,
) -> Result<Answer, ApiError> {
    let key = at.resource.key(at.namespace, at.name);
    let live = state.get_object(at.resource, &key, at.name, &call.query)?;
    let old = live.value();
    let current = scale(&old, paths);
    let wanted = match *call.method {
        Method::GET => return Ok(Answer::json(200, &current)),
        Method::PUT => call.json_body()?,
        Method::PATCH => {
            let (kind, patch) = match call.patch_body()? {
                PatchBody::Json(patch) => (PatchKind::Json, patch),
                PatchBody::Merge(patch) | PatchBody::Strategic(patch) => (PatchKind::Merge, patch),
                PatchBody::Apply { object, .. } => (PatchKind::Merge, object),
            };
            let gvk = Gvk::new("autoscaling", "v1", "Scale");
            patch::apply_patch(kind, current, &patch, &gvk).map_err(|e| ApiError::bad_request(e.to_string()))?
        }
        _ => return Err(ApiError::method_not_allowed()),
    };
    if json::text(&wanted, &["metadata", "resourceVersion"]).is_some_and(|v| v != live.version.to_string()) {
        return Err(ApiError::stale(at.resource, at.name));
    }
    let replicas = json::int(&wanted, &["spec", "replicas"]).unwrap_or(0);
    if replicas < 0 {
        let why = "must be greater than or equal to 0";
        let error = FieldError::invalid("spec.replicas", &replicas.into(), why);
        return Err(ApiError::invalid(at.resource, at.name, &[error]));
    }
    let mut new = (*old).clone();
    json::set(&mut new, &split(&paths.spec_replicas), replicas.into());
    let mut write = call.write_at(at.resource, at.namespace)?;
    write.subresource = "scale";
    let written = state.replace(&mut write, &live, &old, new, Part::Main)?;
    Ok(Answer::json(200, &scale(&written.into_value(), paths)).warnings(write.warnings))
}

fn split(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

fn scale(object: &Value, paths: &ScalePaths) -> Value {
    let number = |path: &str| json::int(object, &split(path)).unwrap_or(0);
    let selector = match &paths.label_selector {
        Some(path) => json::text(object, &split(path)).unwrap_or_default().to_owned(),
        None => {
            let selector = json::at(object, &["spec", "selector"]);
            // A replication controller's selector is a plain map.
            let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
            let selector = if plain {
                json!({"matchLabels": selector})
            } else {
                selector.clone()
            };
            LabelSelector::from_spec(&selector).to_string()
        }
    };
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    if !selector.is_empty() {
        json::set(&mut status, &["selector"], selector.into());
    }
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        json::copy(json::at(object, &["metadata"]), &mut metadata, &[field]);
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": number(&paths.spec_replicas)}, "status": status,
    })
}
