//! `kerf controller --cloud-provider aws`.

use crate::process::{Process, tuning};
use anyhow::{Context as _, anyhow};
use kerf_aws::controllers;
use kerf_aws::error_advice::explain;
use kerf_aws::options::AwsOptions;
use kerf_aws::provider::{AwsCloud, AwsParts, AwsProvider, ClusterFacts, client_ca, discover_cluster, profile};
use kerf_aws::services::Services;
use kerf_controllers::{Election, Manager, ManagerConfig, Tuning};
use kerf_model::intern::Interner;
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Recorder, Seed};
use kube::Client;
use std::path::Path;
use std::sync::Arc;

/// Runs the controller until shutdown.
pub(crate) async fn run(
    process: Process,
    aws: AwsOptions,
    kubeconfig: &str,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let metrics = process.metrics(&profile())?;
    let connection = kerf_aws::sdk::connect(&metrics).await?;
    let client_ca = client_ca((!kubeconfig.is_empty()).then(|| Path::new(kubeconfig)));
    let bare = process.bare_client()?;
    let cluster = discover_cluster(&connection.services, &aws, &connection.region, &bare, &client_ca).await?;
    tracing::info!(
        region = connection.region,
        cluster = cluster.name,
        endpoint = cluster.endpoint,
        version = %cluster.version(),
        "discovered the cluster"
    );
    let (client, election) = process.client(&metrics)?;
    let parts = AwsController {
        services: connection.services,
        cluster,
        aws,
        client,
        election,
        options: process.options,
        clock: process.clock,
        seed: process.seed,
        metrics,
        listen: true,
        tuning: tuning(),
    };
    Ok(parts.manager().await?.run(shutdown).await?)
}

/// What a controller with the AWS provider is made from.
pub(crate) struct AwsController {
    pub(crate) services: Services,
    pub(crate) cluster: ClusterFacts,
    pub(crate) aws: AwsOptions,
    pub(crate) client: Client,
    pub(crate) election: Option<Election>,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) metrics: Metrics,
    pub(crate) listen: bool,
    pub(crate) tuning: Tuning,
}

impl AwsController {
    /// The manager with the provider and its loops. Instance types are described first: without them nothing can be decided (AWS-177).
    pub(crate) async fn manager(self) -> anyhow::Result<Manager> {
        let (recorder, events) = Recorder::new();
        let interner = Arc::new(Interner::default());
        let cloud = AwsCloud::new(AwsParts {
            services: self.services,
            cluster: self.cluster,
            options: self.aws,
            reserved_capacity: self.options.feature_gates.reserved_capacity,
            min_values: self.options.min_values_policy,
            client: self.client.clone(),
            clock: self.clock.clone(),
            rng: self.seed.derive("instance profiles").rng(),
            interner: Arc::clone(&interner),
            metrics: self.metrics.clone(),
            recorder: recorder.clone(),
        });
        cloud
            .types
            .refresh(&*cloud.services.ec2)
            .await
            .map_err(|error| anyhow!("describing instance types, {}", explain(&error)))?;
        let loops = controllers::start(&cloud, &self.metrics, self.seed.derive("aws"))
            .await
            .context("reading zonal shifts of the cluster, which --enable-zonal-shift asks for")?;
        let config = ManagerConfig {
            client: self.client,
            election: self.election,
            provider: Arc::new(AwsProvider::new(cloud)),
            options: self.options,
            clock: self.clock,
            seed: self.seed,
            interner,
            metrics: self.metrics,
            listen: self.listen,
            tuning: self.tuning,
        };
        Ok(Manager::with_events(config, (recorder, events)).with_provider_loops(loops))
    }
}
