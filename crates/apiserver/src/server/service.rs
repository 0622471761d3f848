//! The server as a tower service: reads the body, calls the handler, writes the response.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::BodyExt;
use jiff::fmt::rfc2822::DateTimePrinter;
use tower::Service;

use super::ApiServerBuilder;
use crate::error::ApiError;
use crate::handlers::{self, Answer, ResponseBody};
use crate::state::{Backup, Shared};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Largest request body (bytes), as in the real server.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The embedded API server: a cheap handle on one shared state.
#[derive(Clone)]
pub struct ApiServer {
    pub(super) shared: Arc<Shared>,
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer")
            .field("version", &self.shared.lock().version)
            .finish()
    }
}

impl ApiServer {
    /// Options for a new server.
    #[must_use]
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
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

    /// The objects as they are now.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        self.shared.lock().back_up()
    }

    /// Goes back to a backup of this server, as a restored etcd does: objects and versions are those of the backup, and running watches end. A
    /// watch from a later version waits, as on the real server, until writes have reached that version. The log on disk does not follow.
    pub fn restore(&self, backup: &Backup) {
        self.shared.lock().go_back(backup);
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
            Ok(bytes) => handlers::handle(&shared, &head, &bytes).unwrap_or_else(|e| Answer::error(&e)),
            Err(error) => Answer::error(&error),
        };
        let mut response = answer.into_response();
        // Set here and not by the HTTP server, because the clock may be simulated.
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
