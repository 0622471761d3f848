//! The provider on an AWS in memory and an embedded API server, in virtual time.

use crate::class::class_with_status;
use crate::fake_aws::FakeAws;
use crate::options::values;
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::{EC2NodeClass, NodeClaim, NodePool, Provider, crds};
use kerf_apiserver::ApiServer;
use kerf_aws::cluster::ClusterVersion;
use kerf_aws::options::AwsOptions;
use kerf_aws::provider::{AwsCloud, AwsParts, AwsProvider, ClusterFacts};
use kerf_aws::services::ClusterDescription;
use kerf_aws::subnet::Subnet;
use kerf_cloud::{CloudProvider, Launched};
use kerf_model::intern::Interner;
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::{Clock, Event, Metrics, Recorder, Seed};
use kerf_units::policy::MinValuesPolicy;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::mpsc::Receiver;

pub(crate) fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

pub(crate) struct World {
    pub(crate) aws: Arc<FakeAws>,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) cloud: Arc<AwsCloud>,
    pub(crate) provider: AwsProvider,
    pub(crate) metrics: Metrics,
    events: Receiver<Event>,
}

/// The options of a cluster called `prod`.
pub(crate) fn options(flags: &[(&str, &str)]) -> AwsOptions {
    let all: Vec<(&str, &str)> = [("cluster-name", "prod")].iter().chain(flags).copied().collect();
    AwsOptions::from_values(&values(&all, &[])).unwrap()
}

/// A cluster and an account with these instance types in us-east-1a and us-east-1b.
pub(crate) async fn world(types: &[&str]) -> World {
    world_with(types, &[]).await
}

/// The same, with options.
pub(crate) async fn world_with(types: &[&str], flags: &[(&str, &str)]) -> World {
    let clock = Clock::simulated(start());
    let aws = FakeAws::new(&clock, types);
    {
        let mut account = aws.account();
        account.cluster = ClusterDescription {
            endpoint: "https://cluster".to_owned(),
            version: "1.33".to_owned(),
            arn: "arn:cluster".to_owned(),
            service_ipv4_cidr: Some("10.100.0.0/16".to_owned()),
            service_ipv6_cidr: None,
        };
        account.subnets = [
            ("subnet-a", "us-east-1a", "use1-az1"),
            ("subnet-b", "us-east-1b", "use1-az2"),
        ]
        .map(|(id, zone, zone_id)| Subnet {
            id: id.to_owned(),
            zone: zone.to_owned(),
            zone_id: Some(zone_id.to_owned()),
            free_addresses: 4000,
        })
        .into();
    }
    let now = clock.clone();
    let server = ApiServer::builder().clock(Arc::new(move || now.now())).seed(7).build();
    let client = Client::new(server, "default");
    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
    for definition in crds(Provider::Aws) {
        let definition = serde_json::from_value(definition.value.clone()).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    provider_on(aws, client, clock, flags).await
}

/// A provider that starts on this account and API server.
async fn provider_on(aws: Arc<FakeAws>, client: Client, clock: Clock, flags: &[(&str, &str)]) -> World {
    let metrics = Metrics::new(LabelNames::default());
    let (recorder, events) = Recorder::new();
    let version = ClusterVersion::parse("1.33").unwrap();
    let cloud = AwsCloud::new(AwsParts {
        services: aws.services(),
        cluster: ClusterFacts::new(
            "prod",
            "us-east-1",
            "https://cluster",
            "Q0E=",
            Some("10.100.0.10"),
            version,
        ),
        options: options(flags),
        reserved_capacity: true,
        min_values: MinValuesPolicy::Strict,
        client: client.clone(),
        clock: clock.clone(),
        rng: Seed(7).rng(),
        interner: Arc::new(Interner::default()),
        metrics: metrics.clone(),
        recorder,
    });
    cloud.types.refresh(&*aws).await.unwrap();
    aws.take_calls();
    World {
        provider: AwsProvider::new(Arc::clone(&cloud)),
        aws,
        client,
        clock,
        cloud,
        metrics,
        events,
    }
}

/// A world with the class `nodes`, ready.
pub(crate) async fn ready_world(types: &[&str]) -> World {
    let world = world(types).await;
    world.put_class(&ready_class(json!({}), json!({}))).await;
    world
}

/// What the provider makes of a claim.
pub(crate) async fn launched(world: &World, claim: &NodeClaim) -> Launched {
    world.provider.create(claim).await.unwrap()
}

/// A condition as the API has it.
pub(crate) fn condition(kind: &str, status: &str, generation: i64) -> Value {
    json!({"type": kind, "status": status, "reason": kind, "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

/// A class that is ready, with an image for each architecture; fields of its spec and status replaced.
pub(crate) fn ready_class(spec: Value, status: Value) -> EC2NodeClass {
    let arch = |name: &str| json!([{"key": "kubernetes.io/arch", "operator": "In", "values": [name]}]);
    let mut full = json!({
        "amis": [{"id": "ami-amd", "requirements": arch("amd64")}, {"id": "ami-arm", "requirements": arch("arm64")}],
        "conditions": [condition("Ready", "True", 1)],
    });
    for (key, value) in status.as_object().unwrap() {
        full[key] = value.clone();
    }
    class_with_status(spec, full)
}

/// A claim of the pool `default` for the class `nodes` with these values of labels.
pub(crate) fn claim(name: &str, requirements: &[(&str, &[&str])]) -> NodeClaim {
    let each = requirements
        .iter()
        .map(|(key, values)| json!({"key": key, "operator": "In", "values": values}));
    serde_json::from_value(json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {"name": name, "uid": format!("uid-{name}"), "labels": {"karpenter.sh/nodepool": "default"}},
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "nodes"},
            "requirements": each.collect::<Vec<_>>(),
            "resources": {"requests": {"cpu": "500m", "pods": "2"}},
        },
    }))
    .unwrap()
}

pub(crate) const TYPE: &str = "node.kubernetes.io/instance-type";
pub(crate) const CAPACITY: &str = "karpenter.sh/capacity-type";
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";

/// A claim for on-demand instances of m5.large.
pub(crate) fn plain_claim(name: &str) -> NodeClaim {
    claim(name, &[(TYPE, &["m5.large"]), (CAPACITY, &["on-demand"])])
}

/// What the controllers make of a claim that was launched.
pub(crate) fn after_launch(claim: &NodeClaim, launched: &Launched) -> NodeClaim {
    let mut claim = claim.clone();
    claim
        .metadata
        .labels
        .get_or_insert_default()
        .extend(launched.labels.clone());
    claim
        .metadata
        .annotations
        .get_or_insert_default()
        .extend(launched.annotations.clone());
    let status = claim.status.get_or_insert_default();
    status.provider_id = Some(launched.provider_id.clone());
    status.image_id = launched.image_id.clone();
    claim
}

impl World {
    /// The same account and API server with another process of the provider.
    pub(crate) async fn restarted(&self, flags: &[(&str, &str)]) -> Self {
        let again = provider_on(Arc::clone(&self.aws), self.client.clone(), self.clock.clone(), flags).await;
        again.cloud.cluster.resolve_cidr(&*again.aws).await.unwrap();
        again
    }

    /// Writes a class with its status; returns it as the API has it.
    pub(crate) async fn put_class(&self, class: &EC2NodeClass) -> EC2NodeClass {
        self.cloud.cluster.resolve_cidr(&*self.aws).await.unwrap();
        self.aws.take_calls();
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        let name = class.name().unwrap();
        let mut new = EC2NodeClass::new(name, class.spec.clone());
        new.metadata.annotations = class.metadata.annotations.clone();
        api.create(&PostParams::default(), &new).await.unwrap();
        let status = Patch::Merge(json!({"status": class.status}));
        api.patch_status(name, &PatchParams::default(), &status).await.unwrap()
    }

    /// Replaces fields of the status of the class `nodes`.
    pub(crate) async fn patch_status(&self, status: Value) -> EC2NodeClass {
        let api = Api::<EC2NodeClass>::all(self.client.clone());
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status("nodes", &PatchParams::default(), &patch)
            .await
            .unwrap()
    }

    /// The pool `default` with the class `nodes`.
    pub(crate) async fn put_pool(&self) -> NodePool {
        let pool: NodePool = serde_json::from_value(json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"},
            "spec": {"template": {"spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "nodes"},
                "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}],
            }}},
        }))
        .unwrap();
        Api::all(self.client.clone())
            .create(&PostParams::default(), &pool)
            .await
            .unwrap()
    }

    /// The events published since the last call: type, kind of object, name and message.
    pub(crate) fn events(&mut self) -> Vec<Event> {
        let mut all = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            all.push(event);
        }
        all
    }

    /// One value of a metric as a scrape shows it.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics.encode();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' ').map(str::to_owned));
        line.and_then(|value| value.parse().ok())
    }
}
