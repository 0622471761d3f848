//! An API server made of canned answers, for tests of what sits on top of a client.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kube::client::Body;
use serde_json::{Value, json};
use tower::util::BoxCloneService;

/// What was asked: method, path with query, when.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) user_agent: String,
    pub(crate) body: Option<Value>,
    pub(crate) at: tokio::time::Instant,
}

/// The body of an answer.
pub(crate) type Reply = UnsyncBoxBody<Bytes, Infallible>;

/// A service that gives the answers.
pub(crate) type Answers = BoxCloneService<Request<Body>, Response<Reply>, Infallible>;

type Answer = Box<dyn FnMut(&Asked) -> Response<Reply> + Send>;

/// The server: answers with a function and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct Server(Arc<Mutex<State>>);

struct State {
    asked: Vec<Asked>,
    answer: Answer,
}

impl Server {
    pub(crate) fn new(answer: impl FnMut(&Asked) -> Response<Reply> + Send + 'static) -> Self {
        Self(Arc::new(Mutex::new(State {
            asked: Vec::new(),
            answer: Box::new(answer),
        })))
    }

    /// Answers in this order; the last answer repeats.
    pub(crate) fn script(answers: Vec<(u16, Value)>) -> Self {
        let mut answers: VecDeque<_> = answers.into();
        Self::new(move |_| {
            let next = if answers.len() > 1 {
                answers.pop_front()
            } else {
                answers.front().cloned()
            };
            let (code, body) = next.expect("at least one answer");
            json_response(code, &body)
        })
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.0.lock().expect("no test panics inside").asked.clone()
    }

    pub(crate) fn service(&self) -> Answers {
        let state = self.0.clone();
        let answer = move |request: Request<Body>| {
            let state = state.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await.unwrap_or_default();
                let asked = Asked {
                    method: parts.method.to_string(),
                    path: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
                    user_agent: parts
                        .headers
                        .get("user-agent")
                        .and_then(|v| v.to_str().ok())
                        .unwrap_or_default()
                        .to_owned(),
                    body: serde_json::from_slice(&bytes).ok(),
                    at: tokio::time::Instant::now(),
                };
                let mut state = state.lock().expect("no test panics inside");
                let response = (state.answer)(&asked);
                state.asked.push(asked);
                Ok(response)
            }
        };
        Answers::new(tower::service_fn(answer))
    }

    pub(crate) fn client(&self) -> kube::Client {
        kube::Client::new(self.service(), "default")
    }
}

pub(crate) fn json_response(code: u16, body: &Value) -> Response<Reply> {
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())).boxed_unsync());
    *response.status_mut() = http::StatusCode::from_u16(code).expect("a status code");
    response
}

/// A `Status` object as the server sends with a failure.
pub(crate) fn failure(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": "no"})
}

/// One line of a watch body.
pub(crate) fn watch_line(event: &Value) -> String {
    // Servers write the type first, and a client may rely on it.
    format!("{{\"type\":{},\"object\":{}}}\n", event["type"], event["object"])
}

/// A watch body: the lines given, then what is sent through the returned handle; it ends when the handle is dropped.
pub(crate) fn watch_response(lines: &[Value]) -> (Response<Reply>, UnboundedSender<Value>) {
    let (sender, receiver) = unbounded::<Value>();
    let frames = stream::iter(lines.to_vec())
        .chain(receiver)
        .map(|line| Ok::<_, Infallible>(Frame::data(Bytes::from(watch_line(&line)))));
    (Response::new(StreamBody::new(frames).boxed_unsync()), sender)
}
