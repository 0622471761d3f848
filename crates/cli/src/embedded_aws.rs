//! A cluster whose machines are instances of the embedded AWS, with the controller that launches them.

use crate::aws_controller::AwsController;
use anyhow::Context as _;
use kerf_aws::options::AwsOptions;
use kerf_aws::provider::{discover_cluster, profile};
use kerf_aws::services::Services;
use kerf_aws_sandbox::boot::Machines;
use kerf_aws_sandbox::faults::AwsFaults;
use kerf_aws_sandbox::{AwsSandbox, StarterCluster, connect};
use kerf_controllers::{Manager, Tuning, label_names};
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Seed};
use kube::Client;

/// The embedded cluster as its machines see it.
pub(crate) struct EmbeddedCluster {
    pub(crate) client: Client,
    pub(crate) endpoint: String,
    /// CA bundle as base64 text.
    pub(crate) ca_bundle: String,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
}

/// An account with the services on it. Its instances become Nodes of the cluster until shutdown.
pub(crate) struct EmbeddedAws {
    pub(crate) sandbox: AwsSandbox,
    services: Services,
    region: String,
    metrics: Metrics,
}

impl EmbeddedAws {
    /// Makes an account for a cluster of this name, and starts its machines.
    pub(crate) async fn start(
        cluster: &EmbeddedCluster,
        name: &str,
        shutdown: &CancellationToken,
    ) -> anyhow::Result<Self> {
        let version = cluster
            .client
            .apiserver_version()
            .await
            .context("asking the API server for its version")?;
        let starter = StarterCluster {
            name: name.to_owned(),
            endpoint: cluster.endpoint.clone(),
            certificate: cluster.ca_bundle.clone(),
            version: format!("{}.{}", version.major, version.minor),
        };
        let account = starter.account(cluster.seed.derive("account"), cluster.clock.now());
        let sandbox = AwsSandbox::new(account, cluster.clock.clone());
        let metrics = Metrics::new(label_names(&profile()));
        let connection = connect(&sandbox, &AwsFaults::new(cluster.seed.derive("faults")), &metrics)?;
        connection.check().await?;
        let machines = Machines::new(sandbox.clone(), cluster.client.clone());
        tokio::spawn(machines.run(shutdown.clone()));
        Ok(Self {
            sandbox,
            services: connection.services,
            region: connection.region,
            metrics,
        })
    }

    /// The controller of the cluster.
    pub(crate) async fn manager(
        &self,
        cluster: &EmbeddedCluster,
        aws: AwsOptions,
        options: Options,
        listen: bool,
        tuning: Tuning,
    ) -> anyhow::Result<Manager> {
        let facts = discover_cluster(&self.services, &aws, &self.region, &cluster.client, &cluster.ca_bundle).await?;
        let parts = AwsController {
            services: self.services.clone(),
            cluster: facts,
            aws,
            client: cluster.client.clone(),
            election: None,
            options,
            clock: cluster.clock.clone(),
            seed: cluster.seed,
            metrics: self.metrics.clone(),
            listen,
            tuning,
        };
        parts.manager().await
    }
}
