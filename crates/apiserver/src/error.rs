//! The errors of the server, as `Status` objects of the Kubernetes API.

use serde_json::{Map, Value, json};

use crate::registry::Resource;
use crate::schema::{ErrorKind, FieldError};

/// A refused request: HTTP code, machine-readable reason, message and details.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(crate) struct ApiError {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
    details: Option<Value>,
    /// Continue token of an expired list, with which the client may continue without consistency.
    pub(crate) continue_token: Option<String>,
    retry_after_s: Option<u32>,
}

impl ApiError {
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: None,
            continue_token: None,
            retry_after_s: None,
        }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        let mut details = Map::new();
        if !name.is_empty() {
            details.insert("name".to_owned(), name.into());
        }
        if !resource.group.is_empty() {
            details.insert("group".to_owned(), resource.group.as_str().into());
        }
        details.insert("kind".to_owned(), resource.plural.as_str().into());
        self.details = Some(Value::Object(details));
        self
    }

    pub(crate) fn with_causes(mut self, causes: Vec<Value>) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        crate::json::set(details, &["causes"], Value::Array(causes));
        self
    }

    /// Adds the details and header that say when a client should try again.
    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        crate::json::set(details, &["retryAfterSeconds"], seconds.into());
        self.retry_after_s = Some(seconds);
        self
    }

    /// An invalid query parameter. `kind` is the kind of options it belongs to, such as `ListOptions`.
    pub(crate) fn invalid_option(kind: &str, cause: &FieldError) -> Self {
        let mut error = Self::new(422, "Invalid", format!("{kind}.meta.k8s.io \"\" is invalid: {cause}"));
        error.details = Some(json!({
            "group": "meta.k8s.io", "kind": kind,
            "causes": [{"reason": cause.reason(), "message": cause.body(), "field": cause.path}],
        }));
        error
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// The object does not exist.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.qualified())).about(resource, name)
    }

    /// Nothing is served under the path.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource").with_empty_details()
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(
            409,
            "AlreadyExists",
            format!("{} {name:?} already exists", resource.qualified()),
        )
        .about(resource, name)
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// A conflict about something else than a resource: `subject` in the message and `kind` in the details.
    pub(crate) fn conflict_about(subject: &str, kind: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {subject} {name:?}: {why}");
        let mut error = Self::new(409, "Conflict", message);
        error.details = Some(json!({"name": name, "kind": kind}));
        error
    }

    /// Another manager owns what an apply wants to set.
    pub(crate) fn apply_conflict(message: String) -> Self {
        Self::new(409, "Conflict", message)
    }

    /// The caller's resourceVersion is not the stored one.
    pub(crate) fn stale(resource: &Resource, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    pub(crate) fn invalid(resource: &Resource, name: &str, causes: &[FieldError]) -> Self {
        let rendered: Vec<String> = causes.iter().map(ToString::to_string).collect();
        let list = match rendered.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let message = format!("{} {name:?} is invalid: {list}", resource.qualified_kind());
        let mut error = Self::new(422, "Invalid", message).about(resource, name);
        if let Some(details) = &mut error.details {
            crate::json::set(details, &["kind"], resource.kind.as_str().into());
        }
        let causes = causes
            .iter()
            .map(|c| json!({"reason": c.reason(), "message": c.body(), "field": c.path}));
        error.with_causes(causes.collect())
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_empty_details()
    }

    /// Adds details without fields, which some errors of the real server have.
    pub(crate) fn with_empty_details(mut self) -> Self {
        self.details = Some(json!({}));
        self
    }

    /// A resourceVersionMatch that the other parameters of the query forbid.
    pub(crate) fn forbidden_version_match(why: &str) -> Self {
        let cause = FieldError::new(ErrorKind::Forbidden, "resourceVersionMatch", None, why);
        Self::invalid_option("ListOptions", &cause)
    }

    /// A content type that no resource takes.
    pub(crate) fn unsupported_media_type() -> Self {
        Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type").with_empty_details()
    }

    /// A strategic merge patch of a custom resource.
    pub(crate) fn no_strategic_merge() -> Self {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// The history a watch or a page needs is gone.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The caller has seen a version this server has not reached.
    pub(crate) fn version_from_the_future(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        Self::new(504, "Timeout", format!("Timeout: {message}"))
            .retry_after(1)
            .with_causes(vec![
                json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}),
            ])
    }

    pub(crate) fn retry_after_seconds(&self) -> Option<u32> {
        self.retry_after_s
    }

    /// The `Status` object that is sent to the client.
    pub(crate) fn status(&self) -> Value {
        let metadata = match &self.continue_token {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            crate::json::set(&mut status, &["reason"], self.reason.into());
        }
        if let Some(details) = &self.details {
            crate::json::set(&mut status, &["details"], details.clone());
        }
        status
    }
}
