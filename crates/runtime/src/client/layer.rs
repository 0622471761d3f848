//! Our layers under `kube::Client`: user agent, rate limit, a limit of the wait for an answer, retries, metrics, the server's time. They sit
//! on any clonable service that answers API requests, be it a connection or an API server in the same process.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{Method, Request, Response, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use kube::client::Body;
use tokio::time::Instant;
use tower::{BoxError, Layer, Service, ServiceExt};

use super::RequestInfo;
use super::answer_limit::{ANSWER_WAIT_MAX, AnswerBody, AnswerTimeout};
use super::missing_permissions::MissingPermissions;
use super::pace::{Pace, is_watch};
use crate::backoff::{Backoff, TokenBucket};
use crate::clock::Clock;
use crate::metrics::{Counter, Histogram, Metrics, catalogue};
use crate::random::Rng;

/// How many refusals with a `Retry-After` are retried (OPS-107).
const ATTEMPTS_WHEN_TOLD: u32 = 10;
/// The longest `Retry-After` that is honoured.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// How requests are repeated that may be repeated safely.
#[derive(Clone, Debug)]
pub struct Retry {
    /// The number of attempts for reads and idempotent writes after failures of the server or of the network.
    pub attempts: u32,
    /// The time between them.
    pub backoff: Backoff,
    /// The source of jitter.
    pub rng: Rng,
}

impl Retry {
    /// Four attempts within about a second: enough to bridge a restart of one API server behind a load balancer;
    /// longer outages are left to the callers' own back-off.
    pub fn new(rng: Rng) -> Self {
        Self {
            attempts: 4,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(2)),
            rng,
        }
    }
}

/// The settings of the layers; a `tower::Layer`.
#[derive(Clone, Debug, Default)]
pub struct ApiLayers {
    user_agent: Option<HeaderValue>,
    limiter: Option<Arc<TokenBucket>>,
    retry: Option<Retry>,
    metrics: Option<RequestMetrics>,
    pace: Arc<Pace>,
    clock: Option<Clock>,
    missing: MissingPermissions,
}

#[derive(Clone, Debug)]
struct RequestMetrics {
    duration: Histogram,
    total: Counter,
}

impl ApiLayers {
    /// No layers but the pacing of watches, the limit of the wait for an answer, and a log line for each missing permission.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends this user agent (OPS-054). Text that cannot be a header is left out.
    #[must_use]
    pub fn user_agent(mut self, user_agent: &str) -> Self {
        self.user_agent = HeaderValue::from_str(user_agent).ok();
        self
    }

    /// Limits requests as the Go client does: 0 means 5 per second with a burst of 10, negative means no limit
    /// (OPS-031).
    #[must_use]
    pub fn rate_limit(mut self, qps: i64, burst: i64) -> Self {
        self.limiter = match qps {
            ..0 => None,
            0 => Some(Arc::new(TokenBucket::new(5.0, 10))),
            1.. => Some(Arc::new(TokenBucket::new(
                qps as f64,
                u32::try_from(burst.max(1)).unwrap_or(u32::MAX),
            ))),
        };
        self
    }

    /// Repeats what may be repeated.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// Counts and times requests (OPS-178).
    #[must_use]
    pub fn metrics(mut self, metrics: &Metrics) -> Self {
        self.metrics = Some(RequestMetrics {
            duration: metrics.histogram(&catalogue::CLIENT_REQUEST_DURATION),
            total: metrics.counter(&catalogue::CLIENT_REQUESTS),
        });
        self
    }

    /// Passes the server's time to a clock ([`Clock::observe_server_time`]).
    #[must_use]
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.clock = Some(clock.clone());
        self
    }

    /// The same layers for the leader election: no limit it would share with others, no hidden repetitions, and a
    /// user agent that says so (OPS-048, OPS-049).
    #[must_use]
    pub fn for_election(&self) -> Self {
        let agent = self
            .user_agent
            .as_ref()
            .and_then(|agent| agent.to_str().ok())
            .unwrap_or("karpenter");
        Self {
            limiter: None,
            retry: None,
            ..self.clone()
        }
        .user_agent(&format!("{agent}/leader-election"))
    }

    /// A client over `service`, for example an API server in the same process.
    pub fn client<S, B>(&self, service: S, default_namespace: &str) -> kube::Client
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        kube::Client::new(self.layer(service), default_namespace)
    }
}

impl<S> Layer<S> for ApiLayers {
    type Service = ApiService<S>;

    fn layer(&self, inner: S) -> ApiService<S> {
        ApiService {
            inner,
            layers: Arc::new(self.clone()),
        }
    }
}

/// A service under [`ApiLayers`].
#[derive(Clone, Debug)]
pub struct ApiService<S> {
    inner: S,
    layers: Arc<ApiLayers>,
}

impl<S, B> Service<Request<Body>> for ApiService<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Send + 'static,
{
    type Response = Response<AnswerBody<B>>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Readiness of the inner service is awaited per attempt: an attempt may follow a wait for a token.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (service, layers) = (self.inner.clone(), Arc::clone(&self.layers));
        Box::pin(async move { layers.send(service, request).await })
    }
}

impl ApiLayers {
    async fn send<S, B>(&self, service: S, mut request: Request<Body>) -> Result<Response<AnswerBody<B>>, BoxError>
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone,
        S::Error: Into<BoxError>,
    {
        if let Some(user_agent) = &self.user_agent {
            request.headers_mut().insert(USER_AGENT, user_agent.clone());
        }
        let mut attempt = 1;
        loop {
            let again = self.retry.as_ref().and_then(|_| copy(&request));
            let class = Repeatable::of(&request);
            let (method, uri) = (request.method().clone(), request.uri().clone());
            if let Some(pace) = self.pace.of(&request) {
                pace.acquire().await;
            }
            if let Some(limiter) = &self.limiter {
                limiter.acquire().await;
            }
            // A watch may deliver nothing for long, streamed lists included; its reader has limits of its own.
            let is_limited = !is_watch(&request);
            let began = Instant::now();
            let answer = service.clone().oneshot(request);
            let answer = async { answer.await.map_err(Into::into) };
            let result = match is_limited {
                true => within_limit(answer).await,
                false => answer.await,
            };
            if let (Some(clock), Ok(response)) = (&self.clock, &result)
                && let Some(date) = date(response)
            {
                clock.observe_server_time(date);
            }
            self.count(&method, uri.path(), &result, began);
            if let Ok(response) = &result {
                self.missing.note(&method, &uri, response.status());
            }
            let wait = self
                .retry
                .as_ref()
                .and_then(|retry| retry.wait(class, attempt, &result));
            match (wait, again) {
                (Some(wait), Some(again)) => {
                    tokio::time::sleep(wait).await;
                    request = again;
                    attempt += 1;
                }
                (None, _) | (_, None) => {
                    return result.map(|answer| answer.map(|body| AnswerBody::new(body, is_limited)));
                }
            }
        }
    }

    fn count<B>(&self, method: &Method, path: &str, result: &Result<Response<B>, BoxError>, began: Instant) {
        let Some(metrics) = &self.metrics else { return };
        let status = result.as_ref().map(Response::status);
        metrics
            .total
            .inc(&[status.as_ref().map_or("<error>", |code| code.as_str()), method.as_str()]);
        if let Some(RequestInfo {
            verb,
            group,
            version,
            resource,
            named: _,
            subresource,
        }) = RequestInfo::parse(method, path)
        {
            let labels = [verb, group.as_str(), &version, &resource, &subresource];
            metrics.duration.observe(&labels, began.elapsed().as_secs_f64());
        }
    }
}

/// An answer, or an error if its head does not come in time.
async fn within_limit<T>(answer: impl Future<Output = Result<T, BoxError>>) -> Result<T, BoxError> {
    let answer = tokio::time::timeout(ANSWER_WAIT_MAX, answer).await;
    answer.unwrap_or_else(|_| Err(AnswerTimeout::Head.into()))
}

/// Whether a request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeatable {
    /// Sending it twice is the same as sending it once.
    Always,
    /// Only when the server refused to process it: a second create would make a second object.
    WhenRefused,
    /// A refusal is an answer: a disruption budget forbids this eviction (OPS-107).
    Never,
}

impl Repeatable {
    fn of(request: &Request<Body>) -> Self {
        if request.uri().path().ends_with("/eviction") {
            return Self::Never;
        }
        match *request.method() {
            Method::GET | Method::HEAD | Method::PUT | Method::DELETE => Self::Always,
            // A JSON patch may append to a list; the other kinds of patch name the state they want.
            Method::PATCH if is_json_patch(request) => Self::WhenRefused,
            Method::PATCH => Self::Always,
            _ => Self::WhenRefused,
        }
    }
}

fn is_json_patch(request: &Request<Body>) -> bool {
    request
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|v| v.as_bytes().starts_with(b"application/json-patch"))
}

impl Retry {
    /// How long to wait before sending again; `None` when the result is final.
    fn wait<B>(&self, class: Repeatable, attempt: u32, result: &Result<Response<B>, BoxError>) -> Option<Duration> {
        let own = || self.rng.jitter(self.backoff.delay(attempt), 0.2);
        if class == Repeatable::Never {
            return None;
        }
        match result {
            Ok(response) if response.status() == StatusCode::TOO_MANY_REQUESTS => match retry_after(response) {
                Some(wait) => (attempt < ATTEMPTS_WHEN_TOLD).then(|| self.rng.jitter(wait, 0.1)),
                None => (attempt < self.attempts).then(own),
            },
            Ok(response) if is_outage(response.status()) => {
                let wait = retry_after(response).map(|wait| self.rng.jitter(wait, 0.1));
                (class == Repeatable::Always && attempt < self.attempts).then(|| wait.unwrap_or_else(own))
            }
            Ok(_) => None,
            Err(_) => (class == Repeatable::Always && attempt < self.attempts).then(own),
        }
    }
}

fn is_outage(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::BAD_GATEWAY | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT
    )
}

/// When the server answered, by its own clock.
fn date<B>(response: &Response<B>) -> Option<Timestamp> {
    let text = response.headers().get(DATE)?.to_str().ok()?;
    Some(rfc2822::parse(text).ok()?.timestamp())
}

/// How long the server asks clients to wait, at most [`LONGEST_WAIT`].
fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let seconds = response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .trim()
        .parse::<u64>()
        .ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

/// A second copy of a request; `None` when its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// A connected client as a service, so that layers can be put on it.
#[derive(Clone)]
pub(super) struct Connected(pub(super) kube::Client);

impl Service<Request<Body>> for Connected {
    type Response = Response<Body>;
    type Error = kube::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, kube::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), kube::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let client = self.0.clone();
        Box::pin(async move { client.send(request).await })
    }
}
