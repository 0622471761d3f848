//! What can go wrong between a client and the API server, as a tower layer: latency, refusals, lost calls and answers, broken watches, stale
//! reads, and death between any two calls.
//!
//! A layer belongs to one client, so that only the component under test suffers. Its [`Faults`] handle switches faults while it runs; what
//! happens to which call depends on the seed and the order of calls only.

mod body;
mod stale;

use body::{FaultBody, WatchEnd};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kerf_runtime::{CancellationToken, Rng, Seed};
use kube::client::Body;
use stale::Shelf;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tower::{Layer, Service};

/// An error of the transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Calls remembered for a failing test's report.
const TRACE: usize = 256;

/// How often what goes wrong. Chances are between 0 (never, the default) and 1 (always).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// Every call takes this long at least and at most.
    pub latency: Option<(Duration, Duration)>,
    /// A write is refused with 409 Conflict.
    pub conflict: f64,
    /// A call is refused with 429 Too Many Requests and a `Retry-After` of one second.
    pub too_many: f64,
    /// A call is refused with 500 Internal Server Error.
    pub internal: f64,
    /// A call is lost: it never arrives, the client sees a broken connection.
    pub lost: f64,
    /// A call arrives and is carried out, but its answer is lost.
    pub answer_lost: f64,
    /// A watch breaks off within [`FaultPlan::watch_life`] of its start.
    pub watch_cut: f64,
    /// A watch ends with 410 Gone within [`FaultPlan::watch_life`].
    pub watch_gone: f64,
    /// The longest life of a watch that breaks.
    pub watch_life: Duration,
    /// A read is answered with what the same read got before.
    pub stale: f64,
    /// An event of a watch comes later than it happened, by this much.
    pub watch_lag: Duration,
    /// An event of a watch, be it of its first list, is never told.
    pub watch_loss: f64,
    /// The plurals whose watches lose events; all when empty.
    pub watch_loss_of: Vec<String>,
}

/// When a killed client's last call still counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillMoment {
    /// The call never arrives.
    Before,
    /// The call is carried out, the answer is not seen any more.
    After,
}

/// The switch of one client's faults.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    tag: String,
    rng: Rng,
    state: Mutex<State>,
    killed: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    plan: FaultPlan,
    calls: u64,
    kill: Option<(u64, KillMoment)>,
    trace: VecDeque<String>,
    shelf: Shelf,
}

/// What happens to one call.
enum Fate {
    Pass,
    Refuse(StatusCode, &'static str),
    Lose,
    LoseAnswer,
    Stale,
    Die(KillMoment),
}

impl Faults {
    /// No faults yet, for the client called `tag`.
    pub fn new(tag: &str, seed: Seed) -> Self {
        Self(Arc::new(Inner {
            tag: tag.to_owned(),
            rng: seed.derive(tag).rng(),
            state: Mutex::default(),
            killed: CancellationToken::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The client's tag.
    pub fn tag(&self) -> &str {
        &self.0.tag
    }

    /// Lets these things go wrong from now on.
    pub fn set(&self, plan: FaultPlan) {
        self.state().plan = plan;
    }

    /// Lets nothing go wrong any more. A client that was killed stays dead.
    pub fn clear(&self) {
        self.set(FaultPlan::default());
    }

    /// How many calls were made; watches are not counted.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The last calls made, as `METHOD path`, oldest first.
    pub fn trace(&self) -> Vec<String> {
        self.state().trace.iter().cloned().collect()
    }

    /// Kills the client at its `call`-th call (counting from one, watches not counted): no call is answered any more.
    pub fn kill_at(&self, call: u64, moment: KillMoment) {
        self.state().kill = Some((call, moment));
    }

    /// Cancelled once the client was killed: time to drop it.
    pub fn killed(&self) -> CancellationToken {
        self.0.killed.clone()
    }

    fn happens(&self, chance: f64) -> bool {
        // No draw for what is switched off, so that switching one fault on does not change when the others strike.
        chance > 0.0 && self.0.rng.unit() < chance
    }

    fn judge(&self, method: &Method, path: &str) -> (Fate, Duration) {
        let (plan, call, kill) = {
            let mut state = self.state();
            state.calls += 1;
            if state.trace.len() == TRACE {
                state.trace.pop_front();
            }
            state.trace.push_back(format!("{method} {path}"));
            (state.plan.clone(), state.calls, state.kill)
        };
        let latency = plan.latency.map_or(Duration::ZERO, |(least, most)| {
            least + most.saturating_sub(least).mul_f64(self.0.rng.unit())
        });
        let fate = match kill {
            Some((at, moment)) if call == at => Fate::Die(moment),
            _ if self.happens(plan.lost) => Fate::Lose,
            _ if self.happens(plan.too_many) => Fate::Refuse(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            _ if self.happens(plan.internal) => Fate::Refuse(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
            _ if *method != Method::GET && self.happens(plan.conflict) => {
                Fate::Refuse(StatusCode::CONFLICT, "Conflict")
            }
            _ if *method != Method::GET && self.happens(plan.answer_lost) => Fate::LoseAnswer,
            _ if *method == Method::GET && self.happens(plan.stale) => Fate::Stale,
            _ => Fate::Pass,
        };
        (fate, latency)
    }

    /// How much later the next event of a watch of `plural` is told; `None` for never.
    fn watch_event(&self, plural: &str) -> Option<Duration> {
        let (loss, lag) = {
            let plan = &self.state().plan;
            let spared = !plan.watch_loss_of.is_empty() && !plan.watch_loss_of.iter().any(|one| one == plural);
            (if spared { 0.0 } else { plan.watch_loss }, plan.watch_lag)
        };
        (!self.happens(loss)).then_some(lag)
    }

    fn watch_end(&self) -> Option<WatchEnd> {
        let plan = self.state().plan.clone();
        let gone = self.happens(plan.watch_gone);
        (gone || self.happens(plan.watch_cut)).then(|| WatchEnd::new(plan.watch_life.mul_f64(self.0.rng.unit()), gone))
    }

    async fn die(&self) -> Answer {
        self.0.killed.cancel();
        std::future::pending().await
    }
}

/// Puts [`Faults`] around a service.
#[derive(Clone, Debug)]
pub struct FaultLayer(pub Faults);

impl<S> Layer<S> for FaultLayer {
    type Service = FaultService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        FaultService {
            inner,
            faults: self.0.clone(),
        }
    }
}

/// A service that suffers faults.
#[derive(Clone, Debug)]
pub struct FaultService<S> {
    inner: S,
    faults: Faults,
}

type Answer = Result<Response<FaultBody>, BoxError>;

impl<S, B> Service<Request<Body>> for FaultService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<FaultBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        // The service that is ready makes the call, its copy waits for the next.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        Box::pin(carry_out(self.faults.clone(), ready, request))
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true" || part == "watch=1")
}

async fn carry_out<S, B>(faults: Faults, inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if faults.0.killed.is_cancelled() {
        return faults.die().await;
    }
    if is_watch(&request) {
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let answer = pass(inner, request).await?;
        let end = faults.watch_end();
        return Ok(answer.map(|body| body.watch(plural, end, faults)));
    }
    let path = request.uri().path().to_owned();
    let (fate, latency) = faults.judge(request.method(), &path);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let address = request.uri().to_string();
    let reads = *request.method() == Method::GET;
    match fate {
        Fate::Refuse(code, reason) => Ok(refusal(code, reason)),
        Fate::Lose => Err("connection reset before the call arrived".into()),
        Fate::LoseAnswer => {
            pass(inner, request).await?;
            Err("connection reset before the answer arrived".into())
        }
        Fate::Die(KillMoment::Before) => faults.die().await,
        Fate::Die(KillMoment::After) => {
            pass(inner, request).await?;
            faults.die().await
        }
        Fate::Stale if let Some(old) = faults.state().shelf.take(&address) => Ok(old.map(FaultBody::whole)),
        Fate::Stale | Fate::Pass => {
            let answer = pass(inner, request).await?;
            let keeps = reads && faults.state().plan.stale > 0.0 && answer.status().is_success();
            if !keeps {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let answer = Response::from_parts(head, bytes);
            faults.state().shelf.keep(&address, &answer);
            Ok(answer.map(FaultBody::whole))
        }
    }
}

async fn pass<S, B>(mut inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let answer = inner.call(request).await.map_err(Into::into)?;
    Ok(answer.map(FaultBody::of))
}

fn refusal(code: StatusCode, reason: &'static str) -> Response<FaultBody> {
    let status = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": reason, "code": code.as_u16(),
        "message": format!("injected fault: {reason}"),
    });
    let mut answer = Response::new(FaultBody::whole(Bytes::from(status.to_string())));
    *answer.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(http::header::CONTENT_TYPE, json);
    if code == StatusCode::TOO_MANY_REQUESTS {
        let second = http::HeaderValue::from_static("1");
        answer.headers_mut().insert(http::header::RETRY_AFTER, second);
    }
    answer
}
