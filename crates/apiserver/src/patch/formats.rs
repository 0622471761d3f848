//! JSON patch and merge patch, and the choice between the formats.

use serde_json::Value;
use thiserror::Error;

use super::strategic;
use crate::schema::builtin;

/// The number of operations one JSON patch may have, as in the real server.
const JSON_PATCH_OPERATIONS_MAX: usize = 10_000;

/// Group, version and kind of the patched object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Gvk {
    /// The API group, empty for the core group.
    pub(crate) group: String,
    /// The version.
    pub(crate) version: String,
    /// The kind.
    pub(crate) kind: String,
}

impl Gvk {
    /// A triple from its parts.
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
        }
    }

    /// `version` for the core group, else `group/version`.
    pub(crate) fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// The format of a patch, chosen by the request's content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatchKind {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

/// Why a patch was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PatchError {
    /// The patch is not a patch of its format (400).
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not apply to this object (422).
    #[error("the server rejected our request due to an error in our request: {0}")]
    Invalid(String),
    /// This kind does not take this format (415).
    #[error("the body of the request was in an unknown format - accepted media types include: {0}")]
    UnsupportedMediaType(&'static str),
}

impl PatchError {
    /// The HTTP status the error answers with.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::UnsupportedMediaType(_) => 415,
            Self::Invalid(_) => 422,
        }
    }
}

/// The patched object. Strategic merge patches work on built-in kinds only.
pub(crate) fn apply_patch(kind: PatchKind, mut target: Value, patch: &Value, gvk: &Gvk) -> Result<Value, PatchError> {
    match kind {
        PatchKind::Json => json_patch(target, patch),
        PatchKind::Merge => {
            if !patch.is_object() {
                return Err(PatchError::BadRequest("a merge patch must be a JSON object".to_owned()));
            }
            json_patch::merge(&mut target, patch);
            Ok(target)
        }
        PatchKind::Strategic => match builtin::kind_type(&gvk.group, &gvk.version, &gvk.kind) {
            Some(ty) => strategic::merge(target, patch, ty),
            None => Err(PatchError::UnsupportedMediaType(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
        },
    }
}

fn json_patch(mut target: Value, patch: &Value) -> Result<Value, PatchError> {
    let operations: json_patch::Patch =
        serde_json::from_value(patch.clone()).map_err(|e| PatchError::BadRequest(format!("json patch: {e}")))?;
    if operations.0.len() > JSON_PATCH_OPERATIONS_MAX {
        return Err(PatchError::BadRequest(format!(
            "The allowed maximum operations in a JSON patch is {JSON_PATCH_OPERATIONS_MAX}, got {}",
            operations.0.len()
        )));
    }
    json_patch::patch_unsafe(&mut target, &operations.0).map_err(|e| PatchError::Invalid(e.to_string()))?;
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pool() -> Gvk {
        Gvk::new("karpenter.sh", "v1", "NodePool")
    }

    #[test]
    fn a_merge_patch_sets_removes_and_replaces() {
        let target = json!({"spec": {"a": 1, "b": {"c": 2, "d": 3}, "list": [1, 2]}});
        let patch = json!({"spec": {"a": null, "b": {"c": 5}, "list": [9]}});
        let patched = apply_patch(PatchKind::Merge, target.clone(), &patch, &pool()).expect("applies");
        assert_eq!(patched, json!({"spec": {"b": {"c": 5, "d": 3}, "list": [9]}}));
        let refused = apply_patch(PatchKind::Merge, target, &json!([]), &pool()).expect_err("a list is no merge patch");
        assert_eq!(refused.status(), 400);
    }

    #[test]
    fn a_json_patch_applies_in_order_and_its_test_guards() {
        let target = json!({"metadata": {"finalizers": ["a", "b"], "resourceVersion": "7"}});
        let patch = json!([
            {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
            {"op": "remove", "path": "/metadata/finalizers/0"},
            {"op": "add", "path": "/metadata/labels", "value": {}},
            {"op": "add", "path": "/metadata/labels/karpenter.sh~1nodepool", "value": "x"},
        ]);
        let patched = apply_patch(PatchKind::Json, target.clone(), &patch, &pool()).expect("applies");
        assert_eq!(patched["metadata"]["finalizers"], json!(["b"]));
        assert_eq!(patched["metadata"]["labels"], json!({"karpenter.sh/nodepool": "x"}));
        let stale = json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "6"}]);
        assert_eq!(
            apply_patch(PatchKind::Json, target.clone(), &stale, &pool())
                .expect_err("stale")
                .status(),
            422
        );
        let nonsense = json!([{"op": "jump", "path": "/x"}]);
        assert_eq!(
            apply_patch(PatchKind::Json, target, &nonsense, &pool())
                .expect_err("nonsense")
                .status(),
            400
        );
    }

    #[test]
    fn custom_resources_refuse_strategic_patches() {
        let error = apply_patch(PatchKind::Strategic, json!({}), &json!({}), &pool()).expect_err("no strategic merge");
        assert_eq!(error.status(), 415);
    }
}
