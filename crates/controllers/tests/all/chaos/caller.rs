//! Which process makes a write. The API server executes a write while the request is polled on the caller's thread, so a thread-local value can
//! name the caller.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Request;
use kube::client::Body;
use tower::{Layer, Service};

thread_local! {
    static CALLER: Cell<(Caller, u64)> = const { Cell::new((Caller::Others, 0)) };
}

/// Who makes a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Caller {
    /// The controllers under test.
    Kerf,
    /// The controllers under test, by way of the eviction API.
    KerfEvicting,
    /// The sandbox, the cloud, the people.
    Others,
}

impl Caller {
    /// Who is making the write at hand.
    pub(crate) fn now() -> Self {
        CALLER.get().0
    }

    /// The life of the process that is making it, zero for others.
    pub(crate) fn life() -> u64 {
        CALLER.get().1
    }

    /// Whether it is the controllers under test.
    pub(crate) fn is_kerf(self) -> bool {
        self != Self::Others
    }
}

/// Marks a service's calls as those of a life of the controllers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KerfCalls(pub(crate) u64);

impl<S> Layer<S> for KerfCalls {
    type Service = Marked<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Marked(inner, self.0)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Marked<S>(S, u64);

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

/// A call that knows whose it is.
#[derive(Debug)]
pub(crate) struct Named<F> {
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
