//! Assembles a controller with the KWOK provider from client, catalogue, options and metrics.

use anyhow::Context as _;
use kerf_cloud::CloudProvider;
use kerf_controllers::{Election, ManagerConfig, Tuning, label_names};
use kerf_kwok::KwokProvider;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::options::Parsed;
use kerf_runtime::{Clock, Metrics, Options, Seed};
use kube::Client;
use std::sync::Arc;

/// The parts of a controller with the KWOK provider.
pub(crate) struct Parts {
    pub(crate) client: Client,
    pub(crate) election: Option<Election>,
    pub(crate) interner: Arc<Interner>,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) options: Options,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) metrics: Option<Metrics>,
    pub(crate) listen: bool,
    pub(crate) tuning: Tuning,
}

impl Parts {
    /// The manager's configuration and the provider in it.
    pub(crate) fn manager(self) -> (ManagerConfig, Arc<KwokProvider>) {
        let provider = KwokProvider::new(self.client.clone(), Arc::clone(&self.interner), self.catalogue);
        let provider = Arc::new(provider.with_interruption_annotations());
        let metrics = self
            .metrics
            .unwrap_or_else(|| Metrics::new(label_names(provider.profile())));
        let config = ManagerConfig {
            client: self.client,
            election: self.election,
            provider: Arc::clone(&provider) as Arc<dyn CloudProvider>,
            options: self.options,
            clock: self.clock,
            seed: self.seed,
            interner: self.interner,
            metrics,
            listen: self.listen,
            tuning: self.tuning,
        };
        (config, provider)
    }
}

/// The default options, for clusters inside this process.
pub(crate) fn default_options() -> anyhow::Result<Options> {
    match Options::parse(std::iter::empty(), |_| None).context("default options")? {
        Parsed::Run(options) => Ok(options),
        Parsed::Help => anyhow::bail!("the default options contain --help"),
    }
}
