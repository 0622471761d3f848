//! The connector below the AWS SDK: requests go to the account instead of the network.

use crate::faults::{AwsFaults, CallFault};
use crate::sandbox::AwsSandbox;
use crate::wire::{self, Attempt, Reply, WireAnswer, WireRequest};
use aws_credential_types::Credentials;
use aws_credential_types::provider::ProvideCredentials;
use aws_smithy_async::time::TimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http_body_util::BodyExt as _;
use kerf_aws::sdk::{ConnectError, Connection, isolated_config};
use kerf_runtime::{Clock, Metrics};
use std::time::{Duration, SystemTime};

/// Secret and session token that go with the access key of every sandbox. Only tests read them, to search logs for them.
const SECRET: &str = "sandbox-secret-key";
const SESSION_TOKEN: &str = "sandbox-session-token";

/// The services of an account on the real SDK. `faults` may be one for several connections.
pub fn connect(sandbox: &AwsSandbox, faults: &AwsFaults, metrics: &Metrics) -> Result<Connection, ConnectError> {
    let key = sandbox.with(|account, _| account.access_key.clone());
    let credentials = Credentials::new(key, SECRET, Some(SESSION_TOKEN.to_owned()), None, "sandbox");
    connect_as(sandbox, faults, metrics, credentials)
}

/// The same with other credentials than those of the account.
pub fn connect_as(
    sandbox: &AwsSandbox,
    faults: &AwsFaults,
    metrics: &Metrics,
    credentials: impl ProvideCredentials + 'static,
) -> Result<Connection, ConnectError> {
    let region = sandbox.with(|account, _| account.region.clone());
    let connector = Connector {
        sandbox: sandbox.clone(),
        faults: faults.clone(),
    };
    let time = SandboxTime(sandbox.clock().clone());
    let config = isolated_config(SharedHttpClient::new(connector), &region, credentials, time);
    Connection::new(&config, metrics)
}

/// The account's clock, for signatures.
#[derive(Debug)]
struct SandboxTime(Clock);

impl TimeSource for SandboxTime {
    fn now(&self) -> SystemTime {
        SystemTime::from(self.0.now())
    }
}

#[derive(Clone, Debug)]
struct Connector {
    sandbox: AwsSandbox,
    faults: AwsFaults,
}

impl HttpClient for Connector {
    fn http_connector(
        &self,
        _settings: &HttpConnectorSettings,
        _components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connector = self.clone();
        HttpConnectorFuture::new(async move { connector.carry(request).await })
    }
}

/// A request as the wire reads it.
fn wire_request<'a>(client: &'a str, request: &'a HttpRequest, body: &'a [u8]) -> WireRequest<'a> {
    WireRequest {
        client,
        method: request.method(),
        uri: request.uri(),
        headers: request.headers().iter().collect(),
        body,
    }
}

fn broken(text: &'static str) -> ConnectorError {
    ConnectorError::io(text.into())
}

impl Connector {
    async fn carry(&self, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        // The SDK watches how fast a body is read: one that is not read counts as a stalled connection.
        let body = request
            .take_body()
            .collect()
            .await
            .map_err(ConnectorError::io)?
            .to_bytes();
        let request = wire_request(self.faults.client(), &request, &body);
        let (fault, latency) = self.faults.next(&wire::action(&request));
        if !latency.is_zero() {
            tokio::time::sleep(latency).await;
        }
        match fault {
            CallFault::None => response(self.answer(&request).await),
            CallFault::Refuse(refusal) => response(wire::refuse(&request, &refusal, self.sandbox.now())),
            CallFault::DropRequest => Err(broken(
                "injected fault: the connection broke before the request arrived",
            )),
            CallFault::DropAnswer => {
                self.answer(&request).await;
                Err(broken("injected fault: the connection broke before the answer arrived"))
            }
        }
    }

    /// The account's answer. A call that waits for messages is tried again whenever something changes.
    async fn answer(&self, request: &WireRequest<'_>) -> WireAnswer {
        let mut attempt = Attempt::First;
        let mut until = None;
        loop {
            let (reply, seen) = self
                .sandbox
                .serve(|account, now| wire::answer(account, request, attempt, now));
            let wait = match reply {
                Reply::Done(answer) => return answer,
                Reply::Wait(wait) => wait.unsigned_abs(),
            };
            let now = tokio::time::Instant::now();
            let end = *until.get_or_insert(now + wait);
            let left: Duration = end.saturating_duration_since(now);
            attempt = if left.is_zero() { Attempt::Last } else { Attempt::Again };
            if !left.is_zero() {
                self.sandbox.changed(seen, left).await;
            }
        }
    }
}

fn response(answer: WireAnswer) -> Result<HttpResponse, ConnectorError> {
    let status = answer
        .status
        .try_into()
        .map_err(|_| broken("the account answered no HTTP status"))?;
    let mut response = HttpResponse::new(status, SdkBody::from(answer.body));
    for (name, value) in answer.headers {
        response.headers_mut().insert(name, value);
    }
    Ok(response)
}
