//! Errors of the SDK as the provider knows them.

pub(super) use crate::errors::NO_ANSWER;
use crate::errors::{ApiError, TIMEOUT};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;
use std::error::Error;

/// The code that a queue has in answers of the JSON protocol, and the one it has in those of the query protocol, which the provider knows.
const QUEUE_CODES: (&str, &str) = ("AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist");

/// Code, message and fault of an error. One without a code of the service has that of what failed before.
pub(super) fn api_error<E>(error: &SdkError<E, HttpResponse>) -> ApiError
where
    E: ProvideErrorMetadata + Error + 'static,
{
    let status = error.raw_response().map(|response| response.status().as_u16());
    let code = match error.code() {
        Some(code) if code == QUEUE_CODES.0 => QUEUE_CODES.1.to_owned(),
        Some(code) => code.to_owned(),
        None => match (error, status) {
            (SdkError::TimeoutError(_), _) => TIMEOUT.to_owned(),
            (_, Some(status)) => format!("HTTP {status}"),
            _ => NO_ANSWER.to_owned(),
        },
    };
    ApiError {
        code,
        message: error.message().map_or_else(|| chain(error), str::to_owned),
        server_fault: status.is_some_and(|status| status >= 500),
    }
}

/// An error and its causes, each once. Debug output is left out: it may hold headers.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        cause = error.source();
    }
    text
}
