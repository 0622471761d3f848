//! A cluster with controllers, on the embedded control plane in virtual time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use kerf_api::NodeClaim;
use kerf_chaos::debug_log;
use kerf_controllers::{Manager, ManagerConfig};
use kerf_kwok::{KwokProvider, builtin_catalogue, ec2_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_runtime::logging::{LogConfig, LogLevel};
use kerf_runtime::metrics::catalogue::PODS_EVICTION_REQUESTS;
use kerf_runtime::options::Parsed;
use kerf_runtime::{CancellationToken, Metrics, Options};
use kerf_sandbox::Sandbox;
use kube::Client;

/// Beside flags of `kerf controller`: consolidation forgets its moves.
const WITHOUT_MEMORY: &str = "without-memory";

/// The instance types of a day.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prices {
    /// Those of the KWOK provider: in proportion to cpu and memory.
    Kwok,
    /// Like those of EC2.
    Ec2,
}

impl Prices {
    pub(crate) const ALL: [Self; 2] = [Self::Kwok, Self::Ec2];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|prices| prices.to_string() == name)
    }
}

impl fmt::Display for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kwok => "kwok",
            Self::Ec2 => "ec2",
        })
    }
}

/// A cluster with controllers.
pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) offerings: Offerings,
    metrics: Metrics,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), kerf_controllers::ManagerError>>,
    _log: Option<tracing::subscriber::DefaultGuard>,
    _sandbox: Sandbox,
}

impl World {
    pub(crate) async fn start(flags: &str, seed: u64, prices: Prices) -> Self {
        let given = flags.split_whitespace();
        let of_controller = given.clone().filter(|flag| *flag != WITHOUT_MEMORY);
        let options = Options::parse(of_controller.map(str::to_owned), |_| None);
        let options = match options.expect("the flags are those of the controller") {
            Parsed::Run(options) => options,
            Parsed::Help => Options::default(),
        };
        let sandbox = Sandbox::builder().seed(seed).build().await.expect("a sandbox");
        let client = sandbox.client();
        let (interner, metrics) = (Arc::new(Interner::default()), Metrics::default());
        let catalogue = match prices {
            Prices::Ec2 => ec2_catalogue(&interner),
            Prices::Kwok => builtin_catalogue(&interner),
        };
        let offerings = Offerings::new(&catalogue, &interner);
        let provider = Arc::new(KwokProvider::new(client.clone(), Arc::clone(&interner), catalogue));
        let mut config = ManagerConfig {
            options,
            metrics: metrics.clone(),
            ..ManagerConfig::alone(client.clone(), provider, interner, sandbox.clock().clone())
        };
        config.tuning.compare = false;
        config.tuning.remembers_moves = !given.clone().any(|flag| flag == WITHOUT_MEMORY);
        let log = || LogConfig {
            level: LogLevel::Info,
            ..debug_log(sandbox.clock())
        };
        let log = std::env::var_os("KERF_DAY_LOG").map(|_| log().on_this_thread());
        let shutdown = CancellationToken::new();
        let manager = tokio::spawn(Manager::new(config).run(shutdown.clone()));
        Self {
            client,
            offerings,
            metrics,
            shutdown,
            manager,
            _log: log,
            _sandbox: sandbox,
        }
    }

    pub(crate) fn evictions(&self) -> f64 {
        self.metrics.counter(&PODS_EVICTION_REQUESTS).get(&["200"])
    }

    pub(crate) async fn end(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }
}

/// What instances cost, by type, zone and capacity type.
pub(crate) struct Offerings(BTreeMap<[String; 3], f64>);

const LABELS: [&str; 3] = [
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
];

impl Offerings {
    fn new(catalogue: &Catalogue, interner: &Interner) -> Self {
        let text = |id| interner.text(id).to_owned();
        let offerings = catalogue.types.iter().flat_map(|one| {
            one.offerings.iter().filter_map(move |offering| {
                let key = [one.name, offering.zone()?, offering.capacity_type()?].map(text);
                Some((key, offering.price.per_hour()))
            })
        });
        Self(offerings.collect())
    }

    pub(crate) fn of(&self, claim: &NodeClaim) -> f64 {
        let label = |key: &str| claim.metadata.labels.as_ref()?.get(key).cloned();
        let key = LABELS.map(|key| label(key).unwrap_or_default());
        *self.0.get(&key).expect("a launched claim names its offering")
    }
}
