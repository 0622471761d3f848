//! The server as a tower service: reads requests, takes the lock, calls the verb, renders the answer.

use std::convert::Infallible;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use jiff::fmt::rfc2822::DateTimePrinter;
use jiff::{SignedDuration, Timestamp};
use tower::Service;

use crate::answer::Answer;
use crate::body::ResponseBody;
use crate::dispatch;
use crate::error::ApiError;
use crate::observe::{Observer, Write};
use crate::persist::{Journal, OpenError};
use crate::state::State;

/// Where timestamps come from.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Largest request body (bytes), as in the real server.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The embedded API server: a cheap handle on one shared state.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

/// What requests and running watches share.
pub(crate) struct Shared {
    state: Mutex<State>,
    clock: Clock,
    pub(crate) bookmark_interval: Duration,
}

impl Shared {
    /// The state. Nothing in the server panics while it holds the lock, so a poisoned one is still whole.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("version", &self.shared.lock().version)
            .finish()
    }
}

/// Options of a server.
pub struct ApiServerBuilder {
    clock: Option<Clock>,
    seed: u64,
    watch_history: usize,
    bookmark_interval: Duration,
    garbage_collection: bool,
    observer: Option<Observer>,
}

impl std::fmt::Debug for ApiServerBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServerBuilder")
            .field("seed", &self.seed)
            .finish_non_exhaustive()
    }
}

impl ApiServerBuilder {
    /// Where timestamps come from. Without it the server starts at the beginning of 2026 and follows tokio's clock.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Seed of uids and generated names.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Events kept per resource: how far a watcher may fall behind, how old a continue token may be.
    #[must_use]
    pub fn watch_history(mut self, events: usize) -> Self {
        self.watch_history = events;
        self
    }

    /// How often a quiet watch that allows bookmarks gets one.
    #[must_use]
    pub fn bookmark_interval(mut self, interval: Duration) -> Self {
        self.bookmark_interval = interval;
        self
    }

    /// Whether dependents follow their owners; on by default. A control plane without a controller manager has none.
    #[must_use]
    pub fn garbage_collection(mut self, on: bool) -> Self {
        self.garbage_collection = on;
        self
    }

    /// Tells `look` of every write while it happens, before any watcher hears of it. It must be quick and must not call the server.
    #[must_use]
    pub fn observer(mut self, look: impl Fn(Write<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Observer::new(look));
        self
    }

    /// A server that keeps its state in a folder: reads what is there and writes every change to it. History is not kept:
    /// clients that watched before a restart list again.
    ///
    /// # Errors
    /// When the folder cannot be used or its log is damaged.
    pub fn open(self, folder: &Path) -> Result<ApiServer, OpenError> {
        let server = self.build_from(|state| {
            state.journal = Some(Journal::open(folder, state)?);
            state.compact();
            Ok(())
        })?;
        Ok(server)
    }

    /// The server, with the namespaces and priority classes every cluster has.
    #[must_use]
    pub fn build(self) -> ApiServer {
        match self.build_from(|_| Ok::<(), Infallible>(())) {
            Ok(server) => server,
            Err(never) => match never {},
        }
    }

    fn build_from<E>(self, prepare: impl FnOnce(&mut State) -> Result<(), E>) -> Result<ApiServer, E> {
        let clock = self.clock.unwrap_or_else(tokio_clock);
        let mut state = State::new(self.seed, self.watch_history);
        state.collects_garbage = self.garbage_collection;
        state.observer = self.observer;
        prepare(&mut state)?;
        state.bootstrap(clock());
        let shared = Shared {
            state: Mutex::new(state),
            clock,
            bookmark_interval: self.bookmark_interval,
        };
        Ok(ApiServer {
            shared: Arc::new(shared),
        })
    }
}

/// 2026-01-01T00:00:00Z
const EPOCH_S: i64 = 1_767_225_600;

fn tokio_clock() -> Clock {
    let start = tokio::time::Instant::now();
    Arc::new(move || {
        let elapsed = SignedDuration::try_from(start.elapsed()).unwrap_or(SignedDuration::MAX);
        let epoch = Timestamp::from_second(EPOCH_S).unwrap_or(Timestamp::UNIX_EPOCH);
        epoch.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    })
}

impl ApiServer {
    /// Options for a new server.
    #[must_use]
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            clock: None,
            seed: 0,
            watch_history: 8192,
            bookmark_interval: Duration::from_secs(60),
            garbage_collection: true,
            observer: None,
        }
    }

    /// A server with the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Drops all history, as a compaction of etcd does: running watches end with 410 Expired, and so do continue tokens and
    /// watches that start from an older version.
    pub fn compact(&self) {
        self.shared.lock().compact();
    }

    /// The version of the last write.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.shared.lock().version
    }

    /// Number of stored objects.
    #[must_use]
    pub fn object_count(&self) -> usize {
        self.shared.lock().tables().map(|(_, t)| t.len()).sum()
    }

    async fn answer<B>(shared: Arc<Shared>, request: Request<B>) -> Response<ResponseBody>
    where
        B: http_body::Body + Send,
        B::Data: Send,
        B::Error: Into<BoxError>,
    {
        let (head, body) = request.into_parts();
        let answer = match read_body(&head.method, body).await {
            Ok(bytes) => dispatch::handle(&shared, &head, &bytes).unwrap_or_else(|e| Answer::error(&e)),
            Err(error) => Answer::error(&error),
        };
        let mut response = answer.into_response();
        // As HTTP servers do; here, because this one's clock may be simulated.
        let date = DateTimePrinter::new().timestamp_to_rfc9110_string(&shared.now());
        if let Some(date) = date.ok().and_then(|date| HeaderValue::try_from(date).ok()) {
            response.headers_mut().insert(header::DATE, date);
        }
        response
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

async fn read_body<B>(method: &Method, body: B) -> Result<Bytes, ApiError>
where
    B: http_body::Body + Send,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    if method == Method::GET {
        return Ok(Bytes::new());
    }
    let limited = http_body_util::Limited::new(body, BODY_BYTES_MAX);
    match limited.collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(_) => {
            let message = format!("Request entity too large: limit is {BODY_BYTES_MAX}");
            Err(ApiError::new(413, "RequestEntityTooLarge", message))
        }
    }
}

impl<B> Service<Request<B>> for ApiServer
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { Ok(Self::answer(shared, request).await) })
    }
}
