//! One request, read: its method, query, accepted format and body.

use bytes::Bytes;
use http::{Method, header, request::Parts};
use jiff::Timestamp;
use serde_json::Value;

use super::answer::Answer;
use super::body::ResponseBody;
use crate::error::ApiError;
use crate::registry::Resource;
use crate::request::{Format, ObjectPath, Query, accepted_format, field_validation, include_object};
use crate::schema::{FieldError, protobuf};
use crate::verbs::PatchBody;
use crate::view::View;
use crate::write::{WriteRequest, WriteResult};

/// One request, read.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    pub(crate) query: Query,
    pub(crate) format: Format,
    pub(super) content_type: &'a str,
    user_agent: &'a str,
    pub(crate) body: &'a Bytes,
    pub(crate) now: Timestamp,
}

impl<'a> Call<'a> {
    /// Reads the head of a request.
    pub(crate) fn read(head: &'a Parts, body: &'a Bytes, now: Timestamp) -> Result<Self, ApiError> {
        let text = |name| {
            head.headers
                .get(name)
                .and_then(|v: &header::HeaderValue| v.to_str().ok())
                .unwrap_or_default()
        };
        Ok(Self {
            method: &head.method,
            query: Query::parse(head.uri.query().unwrap_or_default()),
            format: accepted_format(text(header::ACCEPT))?,
            content_type: text(header::CONTENT_TYPE),
            user_agent: text(header::USER_AGENT),
            body,
            now,
        })
    }

    /// The body as JSON. YAML and protobuf are read where the content type says so.
    pub(crate) fn json_body(&self) -> Result<Value, ApiError> {
        if self.content_type.contains("yaml") {
            return serde_saphyr::from_slice(self.body)
                .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")));
        }
        if self.content_type.contains("protobuf") {
            return protobuf::decode(self.body)
                .map_err(|why| ApiError::bad_request(format!("error decoding protobuf: {why}")));
        }
        serde_json::from_slice(self.body).map_err(|e| {
            ApiError::bad_request(format!("the object provided is unrecognized (must be valid JSON): {e}"))
        })
    }

    /// The body of a DELETE, which may be missing.
    pub(super) fn optional_body(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            Ok(Value::Null)
        } else {
            self.json_body()
        }
    }

    /// The field manager of a write: the `fieldManager` of the query, else the first part of the user agent.
    fn manager(&self) -> &str {
        self.query
            .get("fieldManager")
            .unwrap_or_else(|| self.user_agent.split('/').next().unwrap_or_default())
    }
}

impl Call<'_> {
    pub(crate) fn view(&self, resource: &Resource) -> Result<View, ApiError> {
        Ok(View::choose(resource, self.format, include_object(&self.query)?))
    }

    pub(super) fn write<'a>(
        &'a self,
        resource: &'a Resource,
        path: &'a ObjectPath,
    ) -> Result<WriteRequest<'a>, ApiError> {
        self.write_at(resource, path.namespace.as_deref().unwrap_or_default())
    }

    pub(crate) fn write_at<'a>(
        &'a self,
        resource: &'a Resource,
        namespace: &'a str,
    ) -> Result<WriteRequest<'a>, ApiError> {
        Ok(WriteRequest {
            resource,
            namespace,
            now: self.now,
            dry_run: self.query.dry_run(self.options_kind())?,
            validation: field_validation(&self.query)?,
            manager: self.manager(),
            subresource: "",
            applied: false,
            warnings: Vec::new(),
        })
    }

    /// The kind of options that the query of this write is.
    fn options_kind(&self) -> &'static str {
        match *self.method {
            Method::POST => "CreateOptions",
            Method::PATCH => "PatchOptions",
            _ => "UpdateOptions",
        }
    }

    pub(crate) fn patch_body(&self) -> Result<PatchBody, ApiError> {
        let body = PatchBody::parse(self.content_type, self.body, self.query.flag("force")?.unwrap_or(false))?;
        // The user agent names the manager of other writes only.
        if matches!(body, PatchBody::Apply { .. }) && self.query.get("fieldManager").is_none_or(str::is_empty) {
            let cause = FieldError::required("fieldManager", "is required for apply patch");
            return Err(ApiError::invalid_option("PatchOptions", &cause));
        }
        Ok(body)
    }
}

/// The response to a write.
pub(crate) fn written(
    call: &Call<'_>,
    resource: &Resource,
    written: &WriteResult,
    warnings: Vec<String>,
) -> Result<Answer, ApiError> {
    let view = call.view(resource)?;
    let (created, bytes) = match written {
        WriteResult::Stored(stored, created) => (*created, view.object(resource, stored, call.now)),
        WriteResult::Draft(value, created) => (
            *created,
            view.value(resource, value.clone(), call.now).to_string().into(),
        ),
        WriteResult::Gone(value) => (false, view.value(resource, value.clone(), call.now).to_string().into()),
    };
    let code = if created { 201 } else { 200 };
    Ok(Answer::new(code, ResponseBody::whole(bytes)).warnings(warnings))
}
