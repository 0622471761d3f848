//! A client whose chosen requests are lost before they arrive.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Request;
use kerf_apiserver::ApiServer;
use kerf_sandbox::Sandbox;
use kube::Client;
use kube::client::Body;
use tower::Service;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Rule = dyn Fn(&Request<Body>) -> bool + Send + Sync;

/// The API server behind a rule that says which requests get lost.
#[derive(Clone)]
struct Refusing {
    inner: ApiServer,
    rule: Arc<Rule>,
}

/// A client of the sandbox that loses the requests the rule names.
pub(crate) fn client(sandbox: &Sandbox, rule: impl Fn(&Request<Body>) -> bool + Send + Sync + 'static) -> Client {
    let service = Refusing {
        inner: sandbox.api().clone(),
        rule: Arc::new(rule),
    };
    Client::new(service, "default")
}

impl Service<Request<Body>> for Refusing {
    type Response = <ApiServer as Service<Request<Body>>>::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        <ApiServer as Service<Request<Body>>>::poll_ready(&mut self.inner, context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if (self.rule)(&request) {
            return Box::pin(async { Err("connection reset before the call arrived".into()) });
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map_err(Into::into) })
    }
}
