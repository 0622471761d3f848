//! A client that cannot write.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Method, Request, Response};
use kube::client::Body;
use tower::{BoxError, Service};

use super::RequestInfo;
use super::layer::Connected;

/// Subresources that act although they are reached by GET.
const ACTING: [&str; 4] = ["exec", "attach", "portforward", "proxy"];

/// A request that a read-only client does not send.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this client only reads, so {method} {path} is not sent")]
pub struct ReadOnlyError {
    /// The request's method.
    pub method: Method,
    /// The request's path.
    pub path: String,
}

/// The same client for get, list and watch only. Every other request ends with a [`ReadOnlyError`] before it is sent.
pub fn read_only(client: kube::Client) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(ReadOnly(Connected(client)), namespace)
}

/// Whether a request only reads.
fn reads<B>(request: &Request<B>) -> bool {
    let is_get = matches!(*request.method(), Method::GET | Method::HEAD);
    let info = RequestInfo::parse(request.method(), request.uri().path());
    is_get && info.is_none_or(|info| !ACTING.contains(&info.subresource.as_str()))
}

#[derive(Clone)]
struct ReadOnly(Connected);

impl Service<Request<Body>> for ReadOnly {
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if reads(&request) {
            let answer = self.0.call(request);
            return Box::pin(async move { Ok(answer.await?) });
        }
        let refused = ReadOnlyError {
            method: request.method().clone(),
            path: request.uri().path().to_owned(),
        };
        // Nothing that runs with such a client is meant to write.
        tracing::error!(error = %refused, "refused to write");
        Box::pin(std::future::ready(Err(refused.into())))
    }
}
