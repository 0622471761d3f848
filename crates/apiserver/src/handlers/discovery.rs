//! Requests that name no object: health, version, discovery and OpenAPI documents.

use http::Method;
use serde_json::json;

use super::answer::Answer;
use super::body::ResponseBody;
use super::call::Call;
use crate::discovery::{self, Documents};
use crate::error::ApiError;
use crate::openapi::{self, v2};
use crate::request::{Format, Route};
use crate::state::State;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers a request that names no object.
pub(super) fn answer(state: &mut State, call: &Call<'_>, route: &Route) -> Result<Answer, ApiError> {
    if *call.method != Method::GET && *call.method != Method::HEAD {
        return Err(ApiError::method_not_allowed());
    }
    let aggregated = call.format == Format::AggregatedDiscovery;
    let document = match route {
        Route::Health => return Ok(Answer::text("ok")),
        Route::CoreVersions if aggregated => return Ok(aggregate(state, str::is_empty)),
        Route::Groups if aggregated => return Ok(aggregate(state, |group| !group.is_empty())),
        Route::OpenApiV2 if call.format == Format::OpenApiV2Protobuf => {
            let body = ResponseBody::whole(v2::protobuf());
            return Ok(Answer::new(200, body).content_type(v2::PROTOBUF));
        }
        Route::OpenApiV2 => Some(v2::json()),
        Route::OpenApi { group, version } => {
            let path = openapi::document_path(group, version);
            let text = documents(state)
                .get(&path)
                .cloned()
                .ok_or_else(ApiError::no_such_path)?;
            return Ok(Answer::new(200, ResponseBody::whole(text)));
        }
        Route::OpenApiIndex => {
            let texts: Vec<(&str, &str)> = documents(state)
                .iter()
                .map(|(path, text)| (path.as_str(), std::str::from_utf8(text).unwrap_or_default()))
                .collect();
            Some(openapi::index(texts))
        }
        Route::Version => Some(discovery::version()),
        Route::Root => Some(discovery::root(&state.registry)),
        Route::CoreVersions => Some(json!({
            "kind": "APIVersions", "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
        })),
        Route::Groups => Some(discovery::group_list(&state.registry)),
        Route::Group(name) => discovery::api_group(&state.registry, name),
        Route::Resources { group, version } => discovery::resources(&state.registry, group, version),
        Route::Object(_) | Route::Unknown => None,
    };
    match document {
        Some(document) => Ok(Answer::json(200, &document)),
        None => Err(ApiError::no_such_path()),
    }
}

/// The aggregated discovery document of the groups for which `wanted` holds.
fn aggregate(state: &State, wanted: impl Fn(&str) -> bool) -> Answer {
    Answer::json(200, &discovery::aggregated(&state.registry, wanted)).content_type(AGGREGATED)
}

/// The OpenAPI documents, made at the first request after the registry changed.
fn documents(state: &mut State) -> &Documents {
    let State {
        registry, documents, ..
    } = state;
    documents.get_or_insert_with(|| discovery::open_api(registry))
}
