//! A client with faults at chosen calls that records its writes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use kerf_apiserver::ApiServer;
use kerf_runtime::client::ApiLayers;
use kerf_runtime::{CancellationToken, Options};
use kerf_sandbox::Sandbox;
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tower::Service;

use crate::simulation::harness::Simulation;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Answer = Response<UnsyncBoxBody<Bytes, BoxError>>;
type Rule = dyn Fn(&Request<Body>) -> CallFault + Send + Sync;

/// What goes wrong with a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CallFault {
    /// Nothing: the call passes.
    None,
    /// It never arrives; the client sees a broken connection.
    Lost,
    /// The API server answers with this.
    Refused(StatusCode),
    /// It arrives so much later.
    Late(Duration),
    /// It is carried out, and the connection ends in the middle of the answer.
    Cut,
}

/// A write, when it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Write {
    pub(crate) at: Instant,
    /// `METHOD path`.
    pub(crate) call: String,
}

struct State {
    rule: Arc<Rule>,
    /// Cancelled when the answers under way, watches above all, end.
    connections: CancellationToken,
    writes: Vec<Write>,
    conflicts: Vec<String>,
}

/// The faults of a client and its writes; clones share both.
#[derive(Clone)]
pub(crate) struct ApiFaults(Arc<Mutex<State>>);

impl ApiFaults {
    /// No faults.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            rule: Arc::new(|_| CallFault::None),
            connections: CancellationToken::new(),
            writes: Vec::new(),
            conflicts: Vec::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides by this rule from now on.
    pub(crate) fn rule(&self, rule: impl Fn(&Request<Body>) -> CallFault + Send + Sync + 'static) {
        self.lock().rule = Arc::new(rule);
    }

    /// The same for calls by method and end of the path.
    pub(crate) fn on(&self, method: Method, path: &str, fault: CallFault) {
        let path = path.to_owned();
        self.rule(move |request| {
            let hit = *request.method() == method && request.uri().path().ends_with(&path);
            if hit { fault } else { CallFault::None }
        });
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.rule(|_| CallFault::None);
    }

    /// Loses every call from now on and ends the watches there are, as an API server does that goes away.
    pub(crate) fn go_away(&self) {
        self.rule(|_| CallFault::Lost);
        let connections = std::mem::take(&mut self.lock().connections);
        connections.cancel();
    }

    /// The writes whose `METHOD path` ends so, events and leases left out.
    pub(crate) fn writes(&self, end: &str) -> Vec<Write> {
        let state = self.lock();
        let writes = state.writes.iter().filter(|write| write.call.ends_with(end));
        writes.cloned().collect()
    }

    /// The calls that the API server itself has answered with a conflict, as `METHOD path`.
    pub(crate) fn conflicts(&self) -> Vec<String> {
        self.lock().conflicts.clone()
    }

    /// Forgets what was written.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.writes.clear();
        state.conflicts.clear();
    }

    /// A client of a sandbox with these faults.
    pub(crate) fn client(&self, sandbox: &Sandbox) -> Client {
        Client::new(self.service(sandbox), "default")
    }

    /// The same under the layers of a controller's client.
    pub(crate) fn layered_client(&self, sandbox: &Sandbox, layers: &ApiLayers) -> Client {
        layers.client(self.service(sandbox), "default")
    }

    fn service(&self, sandbox: &Sandbox) -> FaultyApi {
        FaultyApi {
            inner: sandbox.api().clone(),
            api_faults: self.clone(),
        }
    }

    fn judge(&self, request: &Request<Body>) -> CallFault {
        let mut state = self.lock();
        let path = request.uri().path();
        let counts = *request.method() != Method::GET && !path.contains("/events") && !path.contains("/leases");
        if counts {
            let call = format!("{} {path}", request.method());
            state.writes.push(Write {
                at: Instant::now(),
                call,
            });
        }
        let rule = Arc::clone(&state.rule);
        drop(state);
        rule(request)
    }
}

/// The same cluster with new controllers, settled, and the faults of their client.
pub(crate) async fn with_api_faults(
    simulation: Simulation,
    change: impl FnOnce(&mut Options),
) -> (Simulation, ApiFaults) {
    let api_faults = ApiFaults::new();
    let sandbox = simulation.crash().await;
    let client = api_faults.client(&sandbox);
    let simulation = Simulation::join_as(sandbox, client, change);
    tokio::time::sleep(Duration::from_secs(15)).await;
    api_faults.forget();
    (simulation, api_faults)
}

#[derive(Clone)]
struct FaultyApi {
    inner: ApiServer,
    api_faults: ApiFaults,
}

impl Service<Request<Body>> for FaultyApi {
    type Response = Answer;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        <ApiServer as Service<Request<Body>>>::poll_ready(&mut self.inner, context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let fault = self.api_faults.judge(&request);
        let mut inner = self.inner.clone();
        let (api_faults, call) = (
            self.api_faults.clone(),
            format!("{} {}", request.method(), request.uri().path()),
        );
        Box::pin(async move {
            match fault {
                CallFault::Lost => return Err("connection reset before the call arrived".into()),
                CallFault::Refused(code) => return Ok(refusal(code)),
                CallFault::Late(time) => tokio::time::sleep(time).await,
                CallFault::Cut | CallFault::None => {}
            }
            let connection = api_faults.lock().connections.clone();
            let answer = inner.call(request).await.map_err(BoxError::from)?;
            if answer.status() == StatusCode::CONFLICT {
                api_faults.lock().conflicts.push(call);
            }
            let (head, body) = answer.into_parts();
            if fault == CallFault::Cut {
                let whole = body.collect().await.map_err(BoxError::from)?.to_bytes();
                let half = Full::from(whole.slice(..whole.len() / 2));
                return Ok(Response::from_parts(head, half.map_err(BoxError::from).boxed_unsync()));
            }
            let frames = body.into_data_stream().map_ok(Frame::data).map_err(BoxError::from);
            let frames = frames.take_until(connection.cancelled_owned());
            Ok(Response::from_parts(head, StreamBody::new(frames).boxed_unsync()))
        })
    }
}

fn refusal(code: StatusCode) -> Answer {
    let reason = match code {
        StatusCode::CONFLICT => "Conflict",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::FORBIDDEN => "Forbidden",
        _ => "InternalError",
    };
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "reason": reason, "code": code.as_u16(), "message": "refused by the test",
    });
    let answer = Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json");
    answer
        .body(Full::from(status.to_string()).map_err(BoxError::from).boxed_unsync())
        .expect("a status and a header are an answer")
}
