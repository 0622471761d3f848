//! Collections and single objects: the verb of each method, garbage collection after it, and the answer.

use std::sync::{Arc, MutexGuard};

use http::Method;
use serde_json::json;

use super::answer::Answer;
use super::body::ResponseBody;
use super::call::{Call, written};
use super::{reviews, subresources};
use crate::error::ApiError;
use crate::json;
use crate::registry::{Resource, Verbs};
use crate::request::{DeleteOptions, ObjectPath};
use crate::state::{Shared, State};
use crate::storage::Page;
use crate::verbs::{ListRequest, parse_filter};
use crate::watch::{self, WatchRequest};
use crate::write::{Part, WriteResult};

/// Answers a request for a collection, an object or a subresource.
pub(super) fn answer(shared: &Arc<Shared>, call: &Call<'_>, path: &ObjectPath) -> Result<Answer, ApiError> {
    let mut state = shared.lock();
    state.now = call.now;
    state.expire_events();
    let resource = state
        .registry
        .get(&path.group, &path.version, &path.plural)
        .ok_or_else(ApiError::no_such_path)?;
    if resource.verbs == Verbs::CreateOnly {
        return reviews::answer(&resource, call);
    }
    if path.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::no_such_path());
    }
    let result = match (&path.name, &path.subresource) {
        (None, _) => return collection(shared, state, call, path, resource),
        (Some(name), None) => single(shared, &mut state, call, path, &resource, name),
        (Some(name), Some(sub)) => {
            let at = subresources::Target {
                resource: &resource,
                namespace: namespace(path),
                name,
                now: call.now,
            };
            subresources::answer(&mut state, call, &at, sub)
        }
    };
    state.collect_garbage(call.now);
    result
}

fn namespace(path: &ObjectPath) -> &str {
    path.namespace.as_deref().unwrap_or_default()
}

fn collection(
    shared: &Arc<Shared>,
    mut state: MutexGuard<'_, State>,
    call: &Call<'_>,
    path: &ObjectPath,
    resource: Arc<Resource>,
) -> Result<Answer, ApiError> {
    match *call.method {
        Method::GET => {
            let view = call.view(&resource)?;
            let mut filter = parse_filter(&state, &resource, path.namespace.as_deref(), &call.query)?;
            if call.query.flag("watch")? == Some(true) {
                filter.name = None;
                let request = WatchRequest::parse(filter, &call.query)?;
                let stream = watch::open(Arc::clone(shared), &state, resource, request, view);
                return Ok(Answer::new(200, ResponseBody::stream(stream)));
            }
            let page = state.list(&resource, &ListRequest::parse(filter, &call.query)?)?;
            drop(state);
            Ok(Answer::new(
                200,
                ResponseBody::pieces(view.list(&resource, &page, call.now)),
            ))
        }
        Method::POST => {
            if resource.namespaced && path.namespace.is_none() {
                return Err(ApiError::method_not_allowed());
            }
            let mut write = call.write(&resource, path)?;
            let mut object = call.json_body()?;
            // Only the server writes managedFields.
            json::take(&mut object, &["metadata", "managedFields"]);
            let result = state.create(&mut write, None, object);
            let answer = result.and_then(|w| written(call, &resource, &w, write.warnings));
            state.collect_garbage(call.now);
            answer
        }
        Method::DELETE => {
            let filter = parse_filter(&state, &resource, path.namespace.as_deref(), &call.query)?;
            let options = DeleteOptions::parse(&call.query, &call.optional_body()?)?;
            let chosen = state.delete_collection(&resource, &filter, &options, call.now);
            state.collect_garbage(call.now);
            let page = Page {
                version: state.version,
                continue_token: None,
                remaining: None,
                items: chosen?,
            };
            Ok(Answer::new(
                200,
                ResponseBody::pieces(call.view(&resource)?.list(&resource, &page, call.now)),
            ))
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn single(
    shared: &Arc<Shared>,
    state: &mut State,
    call: &Call<'_>,
    path: &ObjectPath,
    resource: &Arc<Resource>,
    name: &str,
) -> Result<Answer, ApiError> {
    let key = resource.key(namespace(path), name);
    match *call.method {
        Method::GET => {
            if call.query.flag("watch")? == Some(true) {
                let mut filter = parse_filter(state, resource, path.namespace.as_deref(), &call.query)?;
                filter.name = Some(name.to_owned());
                let request = WatchRequest::parse(filter, &call.query)?;
                let stream = watch::open(
                    Arc::clone(shared),
                    state,
                    Arc::clone(resource),
                    request,
                    call.view(resource)?,
                );
                return Ok(Answer::new(200, ResponseBody::stream(stream)));
            }
            let stored = state.get_object(resource, &key, name, &call.query)?;
            Ok(Answer::new(
                200,
                ResponseBody::whole(call.view(resource)?.object(resource, &stored, call.now)),
            ))
        }
        Method::PUT => {
            let mut write = call.write(resource, path)?;
            let object = call.json_body()?;
            let result = state.update(&mut write, name, object, Part::Main)?;
            written(call, resource, &result, write.warnings)
        }
        Method::PATCH => {
            let mut write = call.write(resource, path)?;
            let result = state.patch(&mut write, name, call.patch_body()?, Part::Main)?;
            written(call, resource, &result, write.warnings)
        }
        Method::DELETE => {
            let options = DeleteOptions::parse(&call.query, &call.optional_body()?)?;
            let result = state.delete(resource, &key, &options, call.now)?;
            deleted(call, resource, name, &result)
        }
        _ => Err(ApiError::method_not_allowed()),
    }
}

fn deleted(call: &Call<'_>, resource: &Resource, name: &str, result: &WriteResult) -> Result<Answer, ApiError> {
    match result {
        WriteResult::Gone(last) if !resource.rules.returns_deleted => {
            let mut details =
                json!({"name": name, "kind": resource.plural, "uid": json::at(last, &["metadata", "uid"])});
            if !resource.group.is_empty() {
                json::set(&mut details, &["group"], resource.group.as_str().into());
            }
            let status = json!({
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
            });
            Ok(Answer::json(200, &status))
        }
        _ => written(call, resource, result, Vec::new()),
    }
}
