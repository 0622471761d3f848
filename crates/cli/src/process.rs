//! A controller process on a real cluster, whatever its provider.

use kerf_cloud::Profile;
use kerf_controllers::{Election, Tuning, label_names};
use kerf_runtime::client::{ApiLayers, Connection, Retry, read_only};
use kerf_runtime::leader::{ElectionConfig, hostname, identity, lease_namespace};
use kerf_runtime::{Clock, Metrics, Options, Seed};
use kube::Client;

/// Keeps the memory of this process on pages of the usual size.
///
/// Transparent huge pages keep memory resident of which a little is in use: with 60,000 pods on 2,000 nodes they are 40 MB of 270. Where the
/// kernel does not let a process choose, its own setting stays.
#[cfg(target_os = "linux")]
pub(crate) fn disable_huge_pages() {
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Other systems have no transparent huge pages.
#[cfg(not(target_os = "linux"))]
pub(crate) fn disable_huge_pages() {}

/// What a controller on a real cluster has, whatever its provider.
pub(crate) struct Process {
    pub(crate) connection: Connection,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
}

impl Process {
    /// A client for questions before there are metrics.
    pub(crate) fn bare_client(&self) -> anyhow::Result<Client> {
        Ok(self.connection.client(&ApiLayers::new())?)
    }

    /// Metrics with the label names of a provider.
    pub(crate) fn metrics(&self, profile: &Profile) -> anyhow::Result<Metrics> {
        let metrics = Metrics::new(label_names(profile));
        metrics.register_process()?;
        metrics.set_build_info(
            env!("CARGO_PKG_VERSION"),
            "rust",
            std::env::consts::ARCH,
            option_env!("KERF_COMMIT").unwrap_or(""),
        );
        Ok(metrics)
    }

    /// The client of the controllers, and how this process is elected.
    pub(crate) fn client(&self, metrics: &Metrics) -> anyhow::Result<(Client, Option<Election>)> {
        let options = &self.options;
        let layers = ApiLayers::new()
            .user_agent(concat!("karpenter/", env!("CARGO_PKG_VERSION")))
            .rate_limit(options.kube_client_qps, options.kube_client_burst)
            .retry(Retry::new(self.seed.derive("retries").rng()))
            .metrics(metrics)
            .clock(&self.clock);
        let client = self.connection.client(&layers)?;
        if options.observe {
            tracing::info!("observing {}: nothing is written", self.connection.server());
            return Ok((read_only(client), None));
        }
        let election = if options.disable_leader_election {
            None
        } else {
            let namespace = lease_namespace(options.leader_election_namespace.as_deref())?;
            let me = identity(&hostname(), &self.seed.derive("identity").rng());
            let config = ElectionConfig::new(options.leader_election_name.clone(), namespace, me);
            Some(Election {
                client: self.connection.client(&layers.for_election())?,
                config,
            })
        };
        tracing::info!("connected to {}", self.connection.server());
        Ok((client, election))
    }
}

/// The settings of a controller that has threads.
pub(crate) fn tuning() -> Tuning {
    Tuning {
        blocking: true,
        ..Tuning::default()
    }
}
