//! moto, an AWS server that others wrote, below the real SDK.

use aws_credential_types::Credentials;
use aws_smithy_async::time::SystemTimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use http_body_util::BodyExt as _;
use kerf_aws::sdk::{Connection, isolated_config};
use kerf_aws::services::Services;
use kerf_runtime::Metrics;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An answer of moto.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// moto at its address. Calls block the thread, so that virtual time does not pass meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Moto {
    address: Arc<str>,
    /// Calls so far, by service and action.
    calls: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Moto {
    /// The server that `KERF_MOTO` names, such as `http://127.0.0.1:5555`.
    pub(crate) fn of_environment() -> Self {
        let endpoint =
            std::env::var("KERF_MOTO").expect("KERF_MOTO names no server: docs/aws.md says how to start one");
        let address = endpoint.trim_end_matches('/').strip_prefix("http://");
        Self {
            address: address.expect("KERF_MOTO is http://HOST:PORT").into(),
            calls: Arc::default(),
        }
    }

    /// How often each action was called, by `service Action`.
    pub(crate) fn calls(&self) -> BTreeMap<String, u32> {
        self.calls.lock().unwrap().clone()
    }

    fn send(&self, request: &HttpRequest, body: &[u8]) -> std::io::Result<Answer> {
        let uri = request.uri();
        let rest = uri.split_once("://").map_or(uri, |(_, rest)| rest);
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let path = if path.starts_with('/') { path } else { "/" };
        // moto finds the service by the host.
        let mut head = format!(
            "{} {path} HTTP/1.1\r\nconnection: close\r\nhost: {host}\r\n",
            request.method()
        );
        let skipped = ["host", "content-length", "connection"];
        let kept = request.headers().iter().filter(|(name, _)| !skipped.contains(name));
        for (name, value) in kept {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!("content-length: {}\r\n\r\n", body.len());
        let mut stream = TcpStream::connect(&*self.address)?;
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)?;
        read(&mut BufReader::new(stream))
    }

    fn count(&self, request: &HttpRequest, body: &[u8]) {
        let target = request.headers().get("x-amz-target").map(str::to_owned);
        let form: BTreeMap<_, _> = form_urlencoded::parse(body).collect();
        let action = target.or_else(|| form.get("Action").map(ToString::to_string));
        let action = action.unwrap_or_else(|| format!("{} {}", request.method(), request.uri()));
        *self.calls.lock().unwrap().entry(action).or_default() += 1;
    }

    async fn carry(&self, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let body = request.take_body().collect().await.map_err(ConnectorError::io)?;
        let mut body = body.to_bytes().to_vec();
        self.count(&request, &body);
        // moto would wait for messages in real time.
        let is_receive = request.headers().get("x-amz-target") == Some("AmazonSQS.ReceiveMessage");
        if is_receive {
            let mut call: Value = serde_json::from_slice(&body).map_err(|error| ConnectorError::user(error.into()))?;
            let wait = std::mem::replace(&mut call["WaitTimeSeconds"], json!(0)).as_u64();
            body = call.to_string().into_bytes();
            tokio::time::sleep(Duration::from_secs(wait.unwrap_or(0))).await;
        }
        let answer = self
            .send(&request, &body)
            .map_err(|error| ConnectorError::io(error.into()))?;
        let status = answer
            .status
            .try_into()
            .map_err(|_| ConnectorError::io("no status".into()))?;
        let mut response = HttpResponse::new(status, SdkBody::from(answer.body));
        for (name, value) in answer.headers {
            response.headers_mut().insert(name, value);
        }
        Ok(response)
    }

    /// The services of the provider on the real SDK.
    pub(crate) fn services(&self) -> Services {
        let credentials = Credentials::new("test", "test", None, None, "moto");
        let client = SharedHttpClient::new(self.clone());
        let config = isolated_config(client, "us-east-1", credentials, SystemTimeSource::new());
        Connection::new(&config, &Metrics::default()).unwrap().services
    }

    /// A call that the provider never makes, in EC2's form or as JSON with a target.
    fn call(&self, host: &str, target: Option<&str>, body: &str) -> String {
        let service = host.split('.').next().unwrap_or_default();
        let mut request = HttpRequest::new(SdkBody::empty());
        request.set_method("POST").unwrap();
        request.set_uri(format!("http://{host}/")).unwrap();
        let kind = match target {
            Some(_) => "application/x-amz-json-1.0",
            None => "application/x-www-form-urlencoded",
        };
        let scope = format!(
            "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
        );
        let headers = request.headers_mut();
        headers.insert("content-type", kind);
        headers.insert("authorization", scope);
        if let Some(target) = target {
            headers.insert("x-amz-target", target.to_owned());
        }
        let answer = self.send(&request, body.as_bytes()).unwrap();
        let text = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 200, "{body}: {text}");
        text
    }

    /// Puts a message into a queue.
    pub(crate) fn send_message(&self, queue_url: &str, message: &Value) {
        let body = json!({"QueueUrl": queue_url, "MessageBody": message.to_string()}).to_string();
        self.call("sqs.us-east-1.amazonaws.com", Some("AmazonSQS.SendMessage"), &body);
    }

    /// The user data of an instance as base64 text.
    pub(crate) fn user_data(&self, id: &str) -> String {
        let body = format!("Action=DescribeInstanceAttribute&Version=2016-11-15&InstanceId={id}&Attribute=userData");
        let text = self.call("ec2.us-east-1.amazonaws.com", None, &body);
        let value = text
            .split_once("<value>")
            .and_then(|(_, rest)| rest.split_once("</value>"));
        value.map_or_else(String::new, |(value, _)| value.trim().to_owned())
    }

    /// The name of the profile of an instance.
    pub(crate) fn profile(&self, id: &str) -> Option<String> {
        let body = format!("Action=DescribeInstances&Version=2016-11-15&InstanceId.1={id}");
        let text = self.call("ec2.us-east-1.amazonaws.com", None, &body);
        let (_, rest) = text.split_once(":instance-profile/")?;
        let (arn, _) = rest.split_once('<')?;
        arn.rsplit('/').next().map(str::to_owned)
    }
}

impl HttpClient for Moto {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Moto {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let moto = self.clone();
        HttpConnectorFuture::new(async move { moto.carry(request).await })
    }
}

/// Reads one answer. After an error moto leaves the connection open, so that its length counts.
fn read(stream: &mut BufReader<TcpStream>) -> std::io::Result<Answer> {
    let broken = || std::io::Error::other("moto's answer is no HTTP");
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
    let status = status.ok_or_else(broken)?;
    let mut headers = Vec::new();
    loop {
        line.clear();
        stream.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    Ok(Answer { status, headers, body })
}
