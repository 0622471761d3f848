//! From a request to the handler that answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;

use super::answer::Answer;
use super::call::Call;
use super::{discovery, objects};
use crate::error::ApiError;
use crate::request::Route;
use crate::state::Shared;

/// Answers a request. The caller renders errors.
pub(crate) fn handle(shared: &Arc<Shared>, head: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
    let call = Call::read(head, body, shared.now())?;
    match Route::parse(head.uri.path()) {
        Route::Object(path) => objects::answer(shared, &call, &path),
        route => discovery::answer(&mut shared.lock(), &call, &route),
    }
}
