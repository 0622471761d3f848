//! From the name of a subresource to its handler.

use http::Method;
use jiff::Timestamp;

use super::{binding, eviction, scale};
use crate::error::ApiError;
use crate::handlers::answer::Answer;
use crate::handlers::call::{Call, written};
use crate::registry::Resource;
use crate::state::State;
use crate::write::{Part, WriteResult};

/// The object a subresource request is about.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) resource: &'a Resource,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) now: Timestamp,
}

/// Answers a request for `name/sub`.
pub(crate) fn answer(state: &mut State, call: &Call<'_>, at: &Target<'_>, sub: &str) -> Result<Answer, ApiError> {
    let is_pod = at.resource.is("", "pods");
    match sub {
        "status" if at.resource.status => status(state, call, at),
        "binding" if is_pod => binding::answer(state, call, at),
        "eviction" if is_pod => eviction::answer(state, call, at),
        "log" | "exec" | "attach" | "portforward" if is_pod => Err(ApiError::bad_request(format!(
            "pod {} is simulated: it has no containers that {sub} could reach",
            at.name
        ))),
        "scale" => match &at.resource.scale {
            Some(paths) => scale::answer(state, call, at, paths),
            None => Err(ApiError::no_such_path()),
        },
        _ => Err(ApiError::no_such_path()),
    }
}

fn status(state: &mut State, call: &Call<'_>, at: &Target<'_>) -> Result<Answer, ApiError> {
    let mut write = call.write_at(at.resource, at.namespace)?;
    write.subresource = "status";
    let result = match *call.method {
        Method::GET => {
            let key = at.resource.key(at.namespace, at.name);
            let stored = state.get_object(at.resource, &key, at.name, &call.query)?;
            WriteResult::Stored(stored, false)
        }
        Method::PUT => state.update(&mut write, at.name, call.json_body()?, Part::Status)?,
        Method::PATCH => state.patch(&mut write, at.name, call.patch_body()?, Part::Status)?,
        _ => return Err(ApiError::method_not_allowed()),
    };
    written(call, at.resource, &result, write.warnings)
}
