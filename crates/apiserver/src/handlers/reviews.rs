//! Reviews (`authorization.k8s.io`, `authentication.k8s.io`): answered and never stored.

use http::Method;
use serde_json::json;

use super::answer::Answer;
use super::call::Call;
use crate::error::ApiError;
use crate::json;
use crate::registry::Resource;

/// Answers a review. This server has no authorization: every request is allowed.
pub(super) fn answer(resource: &Resource, call: &Call<'_>) -> Result<Answer, ApiError> {
    if *call.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let mut review = call.json_body()?;
    let status = match resource.plural.as_str() {
        "selfsubjectrulesreviews" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        "selfsubjectreviews" => json!({"userInfo": {"username": "kerf", "groups": ["system:masters"]}}),
        _ => json!({"allowed": true}),
    };
    json::object_mut(&mut review, &["metadata"]);
    json::set(&mut review, &["status"], status);
    json::set(&mut review, &["kind"], resource.kind.as_str().into());
    json::set(&mut review, &["apiVersion"], resource.api_version().into());
    Ok(Answer::json(201, &review))
}
