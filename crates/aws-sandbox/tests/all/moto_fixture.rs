//! moto, an AWS server that others wrote, below the real SDK and below the machines of an embedded cluster.

use crate::cluster_fixture::{CERTIFICATE, empty_cluster, try_manager};
use crate::cluster_objects::ClusterObjects;
use aws_credential_types::Credentials;
use aws_smithy_async::time::SystemTimeSource;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_types::body::SdkBody;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http_body_util::BodyExt as _;
use jiff::{SignedDuration, Timestamp};
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::instance::DescribedInstance;
use kerf_aws::sdk::{Connection, isolated_config};
use kerf_aws::services::{InstanceQuery, Services};
use kerf_aws_sandbox::account::{Health, Image, Instance, Profile, Purchase, Zone};
use kerf_aws_sandbox::boot::Machines;
use kerf_aws_sandbox::{AwsSandbox, StarterCluster};
use kerf_controllers::{ManagerError, Tuning};
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{CancellationToken, Clock, Metrics, Seed};
use kerf_sandbox::Sandbox;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often the machines are compared with moto's instances.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// From the launch until an instance runs; moto's run at once.
const STARTS_IN: SignedDuration = SignedDuration::from_secs(10);

/// An answer of moto.
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// moto at its address. Calls block the thread, so that virtual time stands still meanwhile.
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
        // The host is how moto tells the services apart.
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
    fn services(&self) -> Services {
        let credentials = Credentials::new("test", "test", None, None, "moto");
        let client = SharedHttpClient::new(self.clone());
        let config = isolated_config(client, "us-east-1", credentials, SystemTimeSource::new());
        Connection::new(&config).unwrap().services
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
    fn user_data(&self, id: &str) -> String {
        let body = format!("Action=DescribeInstanceAttribute&Version=2016-11-15&InstanceId={id}&Attribute=userData");
        let text = self.call("ec2.us-east-1.amazonaws.com", None, &body);
        let value = text
            .split_once("<value>")
            .and_then(|(_, rest)| rest.split_once("</value>"));
        value.map_or_else(String::new, |(value, _)| value.trim().to_owned())
    }

    /// The name of the profile of an instance.
    fn profile(&self, id: &str) -> Option<String> {
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

/// A cluster called `kerf` whose machines are moto's instances, with the controllers of production.
pub(crate) struct MotoCluster {
    pub(crate) moto: Moto,
    pub(crate) services: Services,
    sandbox: Sandbox,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), ManagerError>>,
}

impl ClusterObjects for MotoCluster {
    fn client(&self) -> Client {
        self.sandbox.client()
    }
}

impl MotoCluster {
    /// Starts cluster, machines and controllers.
    pub(crate) async fn start() -> Self {
        let moto = Moto::of_environment();
        let services = moto.services();
        // moto's instances bear the machine's time.
        let clock = Clock::simulated(Clock::system().now());
        let sandbox = empty_cluster(Some(clock.clone())).await;
        let shutdown = CancellationToken::new();
        let hypervisor = Hypervisor::new(&moto, &services, &clock).await;
        tokio::spawn(Machines::new(hypervisor.machines.clone(), sandbox.client()).run(shutdown.clone()));
        tokio::spawn(hypervisor.run(shutdown.clone()));
        let metrics = Metrics::new(LabelNames::default());
        let client = sandbox.client();
        let tuning = (Seed(7), Tuning::default());
        let manager = try_manager(services.clone(), (client, clock), &metrics, None, tuning).await;
        let manager = tokio::spawn(manager.unwrap().run(shutdown.clone()));
        Self {
            moto,
            services,
            sandbox,
            shutdown,
            manager,
        }
    }

    /// Instances of the cluster that neither end nor have ended.
    pub(crate) async fn instances(&self) -> Vec<DescribedInstance> {
        live_instances(&self.services).await
    }

    /// Waits until something holds, at most so long.
    pub(crate) async fn until(&self, what: &str, minutes: u64, holds: impl AsyncFn(&Self) -> bool) {
        for _ in 0..minutes * 12 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let claims = self.claims().await;
        let claims: Vec<_> = claims.iter().map(|claim| (claim.name_any(), &claim.status)).collect();
        panic!(
            "not within {minutes} minutes: {what}\n{claims:#?}\n{:#?}",
            self.instances().await
        );
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.unwrap().unwrap();
        self.sandbox.stop().await;
    }
}

async fn live_instances(services: &Services) -> Vec<DescribedInstance> {
    let all = services.ec2.instances(&InstanceQuery::default()).await.unwrap();
    let lives = |one: &DescribedInstance| {
        matches!(one.state.as_str(), "pending" | "running") && one.tags.contains_key("karpenter.sh/nodepool")
    };
    all.into_iter().filter(lives).collect()
}

/// Boots moto's instances: an account of the embedded AWS has one like each, and machines boot from its user data.
struct Hypervisor {
    moto: Moto,
    services: Services,
    machines: AwsSandbox,
    clock: Clock,
    launched: u8,
}

impl Hypervisor {
    async fn new(moto: &Moto, services: &Services, clock: &Clock) -> Self {
        let cluster = services.eks.cluster("kerf").await.unwrap();
        let starter = StarterCluster {
            name: "kerf".to_owned(),
            endpoint: cluster.endpoint,
            certificate: CERTIFICATE.to_owned(),
            version: cluster.version,
        };
        let account = starter.account(Seed(7), clock.now());
        Self {
            moto: moto.clone(),
            services: services.clone(),
            machines: AwsSandbox::new(account, clock.clone()),
            clock: clock.clone(),
            launched: 0,
        }
    }

    async fn run(mut self, shutdown: CancellationToken) {
        while shutdown
            .run_until_cancelled(tokio::time::sleep(LOOK_EVERY))
            .await
            .is_some()
        {
            let live = live_instances(&self.services).await;
            self.machines.with(|account, now| {
                let ended = |one: &&mut Instance| one.ends.is_none() && !live.iter().any(|other| other.id == one.id);
                account
                    .instances
                    .values_mut()
                    .filter(ended)
                    .for_each(|one| one.ends = Some(now));
            });
            for described in live {
                let is_known = self
                    .machines
                    .with(|account, _| account.instances.contains_key(&described.id));
                if !is_known {
                    self.launch(described).await;
                }
            }
        }
    }

    /// Takes over an instance with its image and profile.
    async fn launch(&mut self, described: DescribedInstance) {
        let profile = self.moto.profile(&described.id);
        let role = match &profile {
            Some(name) => self.services.iam.instance_profile(name).await.unwrap().role,
            None => None,
        };
        let user_data = self.moto.user_data(&described.id);
        assert!(STANDARD.decode(&user_data).is_ok(), "{user_data}");
        self.launched += 1;
        let now = self.clock.now();
        let instance = self.instance(described, user_data, profile.clone(), now);
        self.machines.with(|account, now| {
            account.images.push(Image {
                id: instance.image_id.clone(),
                name: instance.image_id.clone(),
                architecture: instance.architecture.clone(),
                family: AmiFamily::Al2023,
                owner_id: String::new(),
                owner_alias: None,
                created: now,
                deprecated_from: None,
                state: "available".to_owned(),
                tags: BTreeMap::new(),
            });
            if let Some(name) = profile {
                let profile = Profile {
                    name: name.clone(),
                    path: "/".to_owned(),
                    role,
                    created: now,
                    tags: BTreeMap::new(),
                };
                account.profiles.insert(name, profile);
            }
            account.instances.insert(instance.id.clone(), instance);
        });
    }

    fn instance(&self, one: DescribedInstance, user_data: String, profile: Option<String>, now: Timestamp) -> Instance {
        Instance {
            architecture: "x86_64".to_owned(),
            zone: Zone {
                id: one.zone_id.unwrap_or_else(|| one.zone.clone()),
                name: one.zone,
            },
            vpc_id: String::new(),
            group_ids: one.security_group_ids.into_iter().collect(),
            address: format!("10.0.0.{}", self.launched),
            purchase: match one.spot_request_id {
                Some(_) => Purchase::Spot,
                None => Purchase::OnDemand,
            },
            spot_request_id: one.spot_request_id,
            lifecycle: None,
            placement_group: None,
            partition: None,
            profile,
            user_data,
            volumes: BTreeMap::new(),
            launched: now,
            runs_from: now + STARTS_IN,
            stopped: None,
            ends: None,
            health: Health::default(),
            announced: None,
            id: one.id,
            instance_type: one.instance_type,
            image_id: one.image_id,
            subnet_id: one.subnet_id,
            reservation_id: one.reservation_id,
            reservation_preference: one.reservation_preference,
            tenancy: one.tenancy,
            interface_types: one.interface_types,
            tags: one.tags,
        }
    }
}
