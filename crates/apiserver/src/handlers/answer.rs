//! The parts of a response: code, body, warnings.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use super::body::ResponseBody;
use crate::error::ApiError;

/// Longest text of one Warning header (bytes).
const WARNING_MAX: usize = 1024;

/// Code, body and the headers that differ between responses.
#[derive(Debug)]
pub(crate) struct Answer {
    code: u16,
    content_type: &'static str,
    body: ResponseBody,
    warnings: Vec<String>,
    retry_after_s: Option<u32>,
}

impl Answer {
    pub(crate) fn new(code: u16, body: ResponseBody) -> Self {
        Self {
            code,
            content_type: "application/json",
            body,
            warnings: Vec::new(),
            retry_after_s: None,
        }
    }

    pub(crate) fn json(code: u16, value: &Value) -> Self {
        Self::new(code, ResponseBody::whole(Bytes::from(value.to_string())))
    }

    pub(crate) fn text(text: &'static str) -> Self {
        let mut answer = Self::new(200, ResponseBody::whole(Bytes::from_static(text.as_bytes())));
        answer.content_type = "text/plain; charset=utf-8";
        answer
    }

    pub(crate) fn error(error: &ApiError) -> Self {
        let mut answer = Self::json(error.code, &error.status());
        answer.retry_after_s = error.retry_after_seconds();
        answer
    }

    pub(crate) fn content_type(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }

    pub(crate) fn warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    pub(crate) fn into_response(self) -> Response<ResponseBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for warning in self.warnings {
            let text: String = warning
                .chars()
                .map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' })
                .take(WARNING_MAX)
                .collect();
            let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
            if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
                headers.append(header::WARNING, value);
            }
        }
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
