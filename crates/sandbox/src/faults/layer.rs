//! The tower layer that injects the faults.

use super::body::FaultBody;
use super::plan::KillMoment;
use super::switch::{CallFault, Faults};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// An error of the transport.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

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

/// A service with injected faults.
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
        // The service that is ready makes this call; its clone serves the next one.
        let next = self.inner.clone();
        let ready = std::mem::replace(&mut self.inner, next);
        Box::pin(call_with_faults(self.faults.clone(), ready, request))
    }
}

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true" || part == "watch=1")
}

async fn call_with_faults<S, B>(faults: Faults, inner: S, request: Request<Body>) -> Answer
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    if faults.0.killed.is_cancelled() {
        faults.kill().await;
    }
    if is_watch(&request) {
        let plural = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let answer = pass(inner, request).await?;
        let outage = faults.watch_outage();
        return Ok(answer.map(|body| body.watch(plural, outage, faults)));
    }
    let path = request.uri().path().to_owned();
    let (fault, latency) = faults.next_fault(request.method(), &path);
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let address = request.uri().to_string();
    let reads = *request.method() == Method::GET;
    match fault {
        CallFault::Refuse(code, reason) => Ok(refusal(code, reason)),
        CallFault::DropRequest => Err("injected fault: connection reset before the request arrived".into()),
        CallFault::DropResponse => {
            pass(inner, request).await?;
            Err("injected fault: connection reset before the response arrived".into())
        }
        CallFault::Kill(KillMoment::Before) => faults.kill().await,
        CallFault::Kill(KillMoment::After) => {
            pass(inner, request).await?;
            faults.kill().await
        }
        CallFault::StaleRead if let Some(old) = faults.state().previous.take(&address) => Ok(old.map(FaultBody::whole)),
        CallFault::StaleRead | CallFault::None => {
            let answer = pass(inner, request).await?;
            let keeps = reads && faults.state().plan.stale > 0.0 && answer.status().is_success();
            if !keeps {
                return Ok(answer);
            }
            let (head, body) = answer.into_parts();
            let bytes = body.collect().await?.to_bytes();
            let answer = Response::from_parts(head, bytes);
            faults.state().previous.keep(&address, &answer);
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
    Ok(answer.map(FaultBody::from_body))
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
