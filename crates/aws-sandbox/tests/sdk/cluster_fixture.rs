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
use kerf_runtime::options::{Parsed, Values};
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Recorder, Seed};
use kerf_sandbox::{KubeletOptions, NodeSelection, Sandbox, SandboxBuilder};
use kube::Client;
use std::sync::Arc;

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

/// A cluster without machines, whose kubelets run on every Node that registers.
pub(crate) fn empty_cluster(seed: u64) -> SandboxBuilder {
    Sandbox::builder()
        .seed(seed)
        .provider(Provider::Aws)
        .kubelets(KubeletOptions {
            nodes: NodeSelection::All,
            ..KubeletOptions::default()
        })
}

/// An account as the guide leaves it for a cluster, with a record of its calls.
pub(crate) async fn account_for(sandbox: &Sandbox) -> Account {
    let version = sandbox.client().apiserver_version().await.unwrap();
    let starter = StarterCluster {
        name: "kerf".to_owned(),
        endpoint: "https://embedded".to_owned(),
        certificate: CERTIFICATE.to_owned(),
        version: format!("{}.{}", version.major, version.minor),
    };
    let mut account = starter.account(sandbox.seed(), sandbox.clock().now());
    account.records_calls = true;
    account
}

/// The same without controllers.
pub(crate) async fn prepared(change: impl FnOnce(&mut Account)) -> Prepared {
    let sandbox = empty_cluster(7).build().await.unwrap();
    let mut account = account_for(&sandbox).await;
    change(&mut account);
    Prepared {
        aws: AwsSandbox::new(account, sandbox.clock().clone()),
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
    let services = connect(aws, faults, metrics).unwrap().services;
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
    let flags = ["cluster-name", "interruption-queue"].map(|flag| format!("--{flag}=kerf"));
    let Parsed::Run(values) = Values::parse(&kerf_aws::options::DEFINITIONS, flags, |_| None) else {
        panic!("no help is asked for");
    };
    let aws_options = AwsOptions::from_values(&values).unwrap();
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

    async fn describe_cloud(&self) -> String {
        format!("{:#?}", self.instances())
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
