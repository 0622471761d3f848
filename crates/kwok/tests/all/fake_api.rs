//! An API server of a few lines: objects by path, and failures on request.

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tower::service_fn;

#[derive(Clone, Default)]
pub(crate) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
pub(crate) struct State {
    /// Objects by path.
    pub(crate) objects: BTreeMap<String, Value>,
    /// Every request, as `VERB path`.
    pub(crate) requests: Vec<String>,
    /// How many of the next requests with this text fail with this code.
    pub(crate) failures: Vec<(String, u16, usize)>,
}

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";

impl FakeApi {
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body
                    .collect()
                    .await
                    .map(http_body_util::Collected::to_bytes)
                    .unwrap_or_default();
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                let (code, answer) = api.locked().answer(&parts.method, parts.uri.path(), body);
                let response = Response::builder().status(StatusCode::from_u16(code).expect("a code"));
                Ok::<_, std::convert::Infallible>(
                    response
                        .body(Body::from(answer.to_string().into_bytes()))
                        .expect("a response"),
                )
            }
        });
        Client::new(service, "default")
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("not poisoned")
    }

    pub(crate) fn put(&self, collection: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        self.locked().objects.insert(format!("{collection}/{name}"), object);
    }

    pub(crate) fn names(&self, collection: &str) -> Vec<String> {
        let prefix = format!("{collection}/");
        let state = self.locked();
        state
            .objects
            .keys()
            .filter_map(|path| path.strip_prefix(&prefix))
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn fail(&self, text: &str, code: u16, times: usize) {
        self.locked().failures.push((text.to_owned(), code, times));
    }
}

impl State {
    fn answer(&mut self, verb: &Method, path: &str, body: Value) -> (u16, Value) {
        let request = format!("{verb} {path}");
        self.requests.push(request.clone());
        for (text, code, left) in &mut self.failures {
            if *left > 0 && request.contains(text.as_str()) {
                *left -= 1;
                return failure(*code, "");
            }
        }
        if *verb == Method::POST {
            let name = body["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{path}/{name}");
            if self.objects.contains_key(&path) {
                return failure(409, "AlreadyExists");
            }
            self.objects.insert(path, body.clone());
            return (201, body);
        }
        if *verb == Method::GET && [NODES, CLASSES, CLAIMS].contains(&path) {
            let prefix = format!("{path}/");
            let items: Vec<&Value> = self
                .objects
                .range(prefix.clone()..)
                .take_while(|(at, _)| at.starts_with(&prefix))
                .map(|(_, o)| o)
                .collect();
            return (
                200,
                json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}),
            );
        }
        let found = self.objects.get(path).cloned();
        let Some(object) = found else {
            return failure(404, "NotFound");
        };
        if *verb == Method::DELETE {
            let wanted = &body["preconditions"]["uid"];
            if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                return failure(409, "Conflict");
            }
            self.objects.remove(path);
        }
        (200, object)
    }
}

fn failure(code: u16, reason: &str) -> (u16, Value) {
    let message = format!("failure {code}");
    (
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code}),
    )
}
