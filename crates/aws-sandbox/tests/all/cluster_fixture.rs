//! An embedded cluster whose machines are instances of an embedded account, with the controllers of production, in virtual time.

use crate::cluster_objects::ClusterObjects;
use kerf_api::Provider;
use kerf_aws::controllers;
use kerf_aws::options::AwsOptions;
use kerf_aws::provider::{AwsCloud, AwsParts, AwsProvider, discover_cluster};
use kerf_aws::services::Services;
use kerf_aws_sandbox::account::{Account, Instance, InstanceState};
use kerf_aws_sandbox::boot::Machines;
use kerf_aws_sandbox::faults::AwsFaults;
use kerf_aws_sandbox::{AwsSandbox, StarterCluster, connect};
use kerf_controllers::{Election, Manager, ManagerConfig, Tuning};
use kerf_model::intern::Interner;
use kerf_runtime::metrics::LabelNames;
use kerf_runtime::options::Parsed;
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Recorder, Seed};
use kerf_sandbox::{KubeletOptions, NodeSelection, Sandbox};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const GETTING_STARTED: &str = include_str!("../../../../examples/aws-getting-started.yaml");

pub(crate) struct Cluster {
    pub(crate) aws: AwsSandbox,
    pub(crate) faults: AwsFaults,
    pub(crate) sandbox: Sandbox,
    pub(crate) metrics: Metrics,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), kerf_controllers::ManagerError>>,
}

/// An account and a cluster on which no controller runs yet.
pub(crate) struct Prepared {
    pub(crate) aws: AwsSandbox,
    pub(crate) faults: AwsFaults,
    pub(crate) sandbox: Sandbox,
}

/// CA bundle of the cluster.
pub(crate) const CERTIFICATE: &str = "ZW1iZWRkZWQ=";

/// A cluster called `kerf` on the account that the guide leaves, changed before anything runs.
pub(crate) async fn cluster(change: impl FnOnce(&mut Account)) -> Cluster {
    prepared(change).await.start().await
}

/// A cluster without machines, whose kubelets run on every Node that registers; by default its time begins with 2026.
pub(crate) async fn empty_cluster(clock: Option<Clock>) -> Sandbox {
    let mut builder = Sandbox::builder()
        .seed(7)
        .provider(Provider::Aws)
        .kubelets(KubeletOptions {
            nodes: NodeSelection::All,
            ..KubeletOptions::default()
        });
    if let Some(clock) = clock {
        builder = builder.clock(clock);
    }
    builder.build().await.unwrap()
}

/// The same without controllers.
pub(crate) async fn prepared(change: impl FnOnce(&mut Account)) -> Prepared {
    let sandbox = empty_cluster(None).await;
    let clock = sandbox.clock().clone();
    let version = sandbox.client().apiserver_version().await.unwrap();
    let starter = StarterCluster {
        name: "kerf".to_owned(),
        endpoint: "https://embedded".to_owned(),
        certificate: CERTIFICATE.to_owned(),
        version: format!("{}.{}", version.major, version.minor),
    };
    let mut account = starter.account(Seed(7), clock.now());
    account.records_calls = true;
    change(&mut account);
    Prepared {
        aws: AwsSandbox::new(account, clock),
        faults: AwsFaults::new(Seed(3)),
        sandbox,
    }
}

impl Prepared {
    /// Starts machines and controllers.
    pub(crate) async fn start(self) -> Cluster {
        self.start_elected(None).await
    }

    /// The same with a controller that is elected first.
    pub(crate) async fn start_elected(self, election: Option<Election>) -> Cluster {
        let shutdown = CancellationToken::new();
        let machines = Machines::new(self.aws.clone(), self.sandbox.client());
        tokio::spawn(machines.run(shutdown.clone()));
        let metrics = Metrics::new(LabelNames::default());
        let manager = manager(&self.sandbox, &self.aws, &self.faults, &metrics, election).await;
        let manager = tokio::spawn(manager.run(shutdown.clone()));
        Cluster {
            aws: self.aws,
            faults: self.faults,
            sandbox: self.sandbox,
            metrics,
            shutdown,
            manager,
        }
    }
}

/// The controllers of production on an account and a cluster.
pub(crate) async fn manager(
    sandbox: &Sandbox,
    aws: &AwsSandbox,
    faults: &AwsFaults,
    metrics: &Metrics,
    election: Option<Election>,
) -> Manager {
    let services = connect(aws, faults).unwrap().services;
    let (client, clock) = (sandbox.client(), sandbox.clock().clone());
    try_manager(
        services,
        (client, clock),
        metrics,
        election,
        (Seed(7), Tuning::default()),
    )
    .await
    .unwrap()
}

/// The same with a client of their own; what AWS refuses at the start is an error.
pub(crate) async fn try_manager(
    services: Services,
    (client, clock): (Client, Clock),
    metrics: &Metrics,
    election: Option<Election>,
    (seed, tuning): (Seed, Tuning),
) -> Result<Manager, String> {
    let flags = BTreeMap::from(["cluster-name", "interruption-queue"].map(|flag| (flag.to_owned(), "kerf".to_owned())));
    let aws_options = AwsOptions::read(&flags, &|_| None).unwrap();
    let Ok(Parsed::Run(options)) = Options::parse(std::iter::empty(), |_| None) else {
        panic!("the default options");
    };
    let facts = discover_cluster(&services, &aws_options, "us-east-1", &client, CERTIFICATE);
    let (recorder, events) = Recorder::new();
    let interner = Arc::new(Interner::default());
    let cloud = AwsCloud::new(AwsParts {
        cluster: facts.await.map_err(|error| error.to_string())?,
        services,
        options: aws_options,
        reserved_capacity: options.feature_gates.reserved_capacity,
        min_values: options.min_values_policy,
        client: client.clone(),
        clock: clock.clone(),
        rng: seed.derive("profiles").rng(),
        interner: Arc::clone(&interner),
        metrics: metrics.clone(),
        recorder: recorder.clone(),
    });
    let types = cloud.types.refresh(&*cloud.services.ec2).await;
    types.map_err(|error| error.to_string())?;
    let loops = controllers::start(&cloud, metrics, seed.derive("aws")).await;
    let config = ManagerConfig {
        options,
        election,
        metrics: metrics.clone(),
        seed,
        tuning,
        ..ManagerConfig::alone(client, Arc::new(AwsProvider::new(cloud)), interner, clock)
    };
    let loops = loops.map_err(|error| error.to_string())?;
    Ok(Manager::with_events(config, (recorder, events)).with_provider_loops(loops))
}

impl ClusterObjects for Cluster {
    fn client(&self) -> Client {
        self.sandbox.client()
    }
}

impl Cluster {
    /// Instances that neither end nor have ended.
    pub(crate) fn instances(&self) -> Vec<Instance> {
        self.aws.with(|account, now| {
            let lives = |one: &&Instance| one.state(now) < InstanceState::ShuttingDown;
            account.instances.values().filter(lives).cloned().collect()
        })
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
        let claims: Vec<_> = claims
            .iter()
            .map(|claim| json!({"name": claim.name_any(), "status": claim.status}))
            .collect();
        let class = self.class().await;
        panic!(
            "not within {minutes} minutes: {what}\n{claims:#?}\n{:#?}\n{:#?}",
            class.status,
            self.instances()
        );
    }

    /// Stops controllers and machines; account and cluster go on.
    pub(crate) async fn stop_controllers(self) -> Prepared {
        self.shutdown.cancel();
        self.manager.await.unwrap().unwrap();
        Prepared {
            aws: self.aws,
            faults: self.faults,
            sandbox: self.sandbox,
        }
    }

    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.unwrap().unwrap();
        self.sandbox.stop().await;
    }
}
