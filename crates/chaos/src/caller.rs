//! Which process makes a write. The API server executes a write while the request is polled on the caller's thread, so a thread-local value can
//! name the caller.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;
use tower::{Layer, Service};

thread_local! {
    static CALLER: Cell<(Caller, u64)> = const { Cell::new((Caller::Others, 0)) };
}

/// Who makes a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Caller {
    /// The controllers under test.
    Kerf,
    /// The controllers under test, by way of the eviction API.
    KerfEvicting,
    /// The sandbox, the cloud, the people.
    Others,
}

impl Caller {
    /// The caller of the current write.
    pub fn now() -> Self {
        CALLER.get().0
    }

    /// The life of the process that is making it, zero for others.
    pub fn life() -> u64 {
        CALLER.get().1
    }

    /// Whether it is the controllers under test.
    pub fn is_kerf(self) -> bool {
        self != Self::Others
    }
}

/// Marks a service's calls as those of a life of the controllers.
#[derive(Clone, Copy, Debug)]
pub struct KerfCalls(pub u64);

impl<S> Layer<S> for KerfCalls {
    type Service = Marked<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Marked(inner, self.0)
    }
}

/// A service whose calls are marked.
#[derive(Clone, Debug)]
pub struct Marked<S>(S, u64);

impl<S: Service<Request<Body>>> Service<Request<Body>> for Marked<S>
where
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Named<Pin<Box<S::Future>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let request = naming_its_object(request);
        let caller = match request.uri().path().ends_with("/eviction") {
            true => Caller::KerfEvicting,
            false => Caller::Kerf,
        };
        Named {
            caller: (caller, self.1),
            inner: Box::pin(self.0.call(request)),
        }
    }
}

/// Fails for a deletion of a NodeClaim that does not say of which: by the time it arrives, another may have the name.
fn naming_its_object(request: Request<Body>) -> Request<Body> {
    let is_deletion = request.method() == Method::DELETE && request.uri().path().contains("/nodeclaims/");
    if !is_deletion {
        return request;
    }
    let (parts, body) = request.into_parts();
    let bytes = body.collect_bytes().now_or_never();
    let bytes = bytes.expect("it is there").expect("it can be read");
    let options: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let uid = &options["preconditions"]["uid"];
    assert!(uid.is_string(), "{} is deleted without its UID", parts.uri);
    Request::from_parts(parts, Body::from(bytes.to_vec()))
}

/// A call that knows whose it is.
#[derive(Debug)]
pub struct Named<F> {
    caller: (Caller, u64),
    inner: F,
}

impl<F: Future + Unpin> Future for Named<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let before = CALLER.replace(self.caller);
        let answer = Pin::new(&mut self.inner).poll(context);
        CALLER.set(before);
        answer
    }
}
