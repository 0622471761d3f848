//! From a request to the verb that answers it.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, header, request::Parts};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::body::ResponseBody;
use crate::discovery;
use crate::error::ApiError;
use crate::json;
use crate::registry::{Resource, Verbs};
use crate::request::{
    DeleteOptions, Format, ObjectPath, Query, Route, accepted_format, field_validation, include_object,
};
use crate::server::Shared;
use crate::state::State;
use crate::subresource;
use crate::verbs::{self, ListRequest, Part, PatchBody, WatchRequest, Write, Written, parse_filter};
use crate::view::View;

/// One request, read.
pub(crate) struct Call<'a> {
    pub(crate) method: &'a Method,
    pub(crate) query: Query,
    pub(crate) format: Format,
    content_type: &'a str,
    user_agent: &'a str,
    pub(crate) body: &'a Bytes,
    pub(crate) now: Timestamp,
}

/// Answers a request. Errors are for the caller to render.
pub(crate) fn handle(shared: &Arc<Shared>, head: &Parts, body: &Bytes) -> Result<Answer, ApiError> {
    let text = |name| {
        head.headers
            .get(name)
            .and_then(|v: &header::HeaderValue| v.to_str().ok())
            .unwrap_or_default()
    };
    let call = Call {
        method: &head.method,
        query: Query::parse(head.uri.query().unwrap_or_default()),
        format: accepted_format(text(header::ACCEPT))?,
        content_type: text(header::CONTENT_TYPE),
        user_agent: text(header::USER_AGENT),
        body,
        now: shared.now(),
    };
    match Route::parse(head.uri.path()) {
        Route::Object(path) => object(shared, &call, &path),
        route => discovery::answer(&mut shared.lock(), &call, &route),
    }
}

impl Call<'_> {
    /// The body as JSON; YAML is accepted where the content type says so.
    pub(crate) fn json_body(&self) -> Result<Value, ApiError> {
        if self.content_type.contains("yaml") {
            return serde_saphyr::from_slice(self.body)
                .map_err(|e| ApiError::bad_request(format!("error decoding YAML: {e}")));
        }
        if self.content_type.contains("protobuf") {
            return Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                "the body of the request was in an unknown format - accepted media types include: application/json, \
                 application/yaml",
            ));
        }
        serde_json::from_slice(self.body).map_err(|e| {
            ApiError::bad_request(format!("the object provided is unrecognized (must be valid JSON): {e}"))
        })
    }

    /// The body of a DELETE, which may be missing.
    fn optional_body(&self) -> Result<Value, ApiError> {
        if self.body.is_empty() {
            Ok(Value::Null)
        } else {
            self.json_body()
        }
    }

    /// Who owns the fields of a write: the named manager, else the program that calls.
    fn manager(&self) -> &str {
        self.query
            .get("fieldManager")
            .unwrap_or_else(|| self.user_agent.split('/').next().unwrap_or_default())
    }
}

fn object(shared: &Arc<Shared>, call: &Call<'_>, path: &ObjectPath) -> Result<Answer, ApiError> {
    let mut state = shared.lock();
    state.now = call.now;
    state.expire_events();
    let resource = state
        .registry
        .get(&path.group, &path.version, &path.plural)
        .ok_or_else(ApiError::no_such_path)?;
    if resource.verbs == Verbs::CreateOnly {
        return review(&resource, call);
    }
    if path.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::no_such_path());
    }
    let result = match (&path.name, &path.subresource) {
        (None, _) => return collection(shared, state, call, path, resource),
        (Some(name), None) => single(shared, &mut state, call, path, &resource, name),
        (Some(name), Some(sub)) => {
            let at = subresource::Target {
                resource: &resource,
                namespace: namespace(path),
                name,
                now: call.now,
            };
            subresource::answer(&mut state, call, &at, sub)
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
    mut state: std::sync::MutexGuard<'_, State>,
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
                let stream = verbs::watch(Arc::clone(shared), &state, resource, request, view);
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
            // Who owns what is for the server to say.
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
            let page = verbs::Page {
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
                let stream = verbs::watch(
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

impl Call<'_> {
    pub(crate) fn view(&self, resource: &Resource) -> Result<View, ApiError> {
        Ok(View::choose(resource, self.format, include_object(&self.query)?))
    }

    fn write<'a>(&'a self, resource: &'a Resource, path: &'a ObjectPath) -> Result<Write<'a>, ApiError> {
        self.write_at(resource, namespace(path))
    }

    pub(crate) fn write_at<'a>(&'a self, resource: &'a Resource, namespace: &'a str) -> Result<Write<'a>, ApiError> {
        Ok(Write {
            resource,
            namespace,
            now: self.now,
            dry_run: self.query.dry_run()?,
            validation: field_validation(&self.query)?,
            manager: self.manager(),
            subresource: "",
            applied: false,
            warnings: Vec::new(),
        })
    }

    pub(crate) fn patch_body(&self) -> Result<PatchBody, ApiError> {
        PatchBody::parse(self.content_type, self.body, self.query.flag("force")?.unwrap_or(false))
    }
}

/// The answer to a write.
pub(crate) fn written(
    call: &Call<'_>,
    resource: &Resource,
    written: &Written,
    warnings: Vec<String>,
) -> Result<Answer, ApiError> {
    let view = call.view(resource)?;
    let (created, bytes) = match written {
        Written::Stored(stored, created) => (*created, view.object(resource, stored, call.now)),
        Written::Draft(value, created) => (
            *created,
            view.value(resource, value.clone(), call.now).to_string().into(),
        ),
        Written::Gone(value) => (false, view.value(resource, value.clone(), call.now).to_string().into()),
    };
    let code = if created { 201 } else { 200 };
    Ok(Answer::new(code, ResponseBody::whole(bytes)).warnings(warnings))
}

fn deleted(call: &Call<'_>, resource: &Resource, name: &str, result: &Written) -> Result<Answer, ApiError> {
    match result {
        Written::Gone(last) if !resource.rules.returns_deleted => {
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

/// Reviews are answered, not stored: here everybody may do everything.
fn review(resource: &Resource, call: &Call<'_>) -> Result<Answer, ApiError> {
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
        _ => json!({"allowed": true, "reason": "this server allows everything"}),
    };
    json::set(&mut review, &["status"], status);
    json::set(&mut review, &["kind"], resource.kind.as_str().into());
    json::set(&mut review, &["apiVersion"], resource.api_version().into());
    Ok(Answer::json(201, &review))
}
