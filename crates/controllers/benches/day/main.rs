//! What a day costs: `cargo bench -p kerf-controllers --bench day`.
//!
//! The controllers run on the embedded cluster for a day of virtual time, with a scheduler that scores as kube-scheduler does, while
//! Deployments scale with the time of day and Jobs come and go. Each set of options lives through the same day. What counts is what the
//! machines cost from their launch to their end, how many pods were evicted, and how long pods waited.
//!
//! `KERF_DAY_HOURS` changes the length, `KERF_DAY_DEPLOYMENTS` the size, `KERF_DAY_SEED` what happens. `KERF_DAY_FLAGS` compares other sets of
//! options, separated by `;`; `without-memory` among them makes consolidation forget its moves, so that it neither pauses nor backs off.
//! `KERF_DAY_CATALOGUE=ec2` has instance types with prices like EC2's instead of those of the KWOK provider, whose prices are proportional to size.
//! `KERF_BENCH_WRITE=FOLDER` writes the table into `packing.md` of that folder and the plots into its folder
//! `packing`.
//!
//! `KERF_DAY_LOG=1` writes the log of the controllers to the standard error.
//!
//! `KERF_DAY_LIFE=1` lets each set of options live through another hour instead: the cluster is scaled up to 6,000 pods and down to 2,400
//! (`scale_down.rs`), and is printed every 20 seconds.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
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
use kerf_testkit::document::{replace_part, write_plots};
use kerf_testkit::plots::{Plot, Series};
use kerf_units::quantity::Quantity;
use kube::api::ListParams;
use kube::{Api, Client};

mod scale_down;
mod workload;

use workload::Workload;

/// That of the `kerf` binary.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Between two looks at the cluster.
const LOOK: Duration = Duration::from_secs(60);
/// Looks between two points of a plot.
const LOOKS_PER_POINT: usize = 10;

/// Beside flags of `kerf controller`: consolidation forgets its moves.
const WITHOUT_MEMORY: &str = "without-memory";
/// The sets of options that are compared, as flags of `kerf controller`.
const SETTINGS: &str = "--packing=upstream;;\
    --disruption-commands-per-pass=Independent --consolidation-savings-per-pod=0.002";

fn main() {
    let number = |name: &str, otherwise: u64| {
        let given = std::env::var(name).ok().and_then(|text| text.parse().ok());
        given.unwrap_or(otherwise)
    };
    let span = Duration::from_secs(3_600 * number("KERF_DAY_HOURS", 24).max(1));
    let deployments = usize::try_from(number("KERF_DAY_DEPLOYMENTS", 40)).unwrap_or(1).max(1);
    let seed = number("KERF_DAY_SEED", 7);
    let settings = std::env::var("KERF_DAY_FLAGS").unwrap_or_else(|_| SETTINGS.to_owned());
    let mut days = Vec::new();
    for flags in settings.split(';') {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let began = Instant::now();
        if std::env::var_os("KERF_DAY_LIFE").is_some() {
            runtime.block_on(scale_down::live(flags, seed));
            println!("{flags}: {:.0} s", began.elapsed().as_secs_f64());
            continue;
        }
        let day = runtime.block_on(live(flags, span, deployments, seed));
        println!("{}: {:.0} s", day.name(), began.elapsed().as_secs_f64());
        days.push(day);
    }
    if days.is_empty() {
        return;
    }
    let text = table(&days);
    print!("{text}");
    if let Some(folder) = std::env::var_os("KERF_BENCH_WRITE") {
        let folder = Path::new(&folder);
        replace_part(&folder.join("packing.md"), "day", &text);
        let plots = [(
            "day-cost.svg",
            curve(&days, "Price of the cluster over a day", "$/h", |look| look.price),
        )]
        .into_iter()
        .chain([(
            "day-nodes.svg",
            curve(&days, "Nodes over a day", "nodes", |look| look.nodes),
        )]);
        write_plots(&folder.join("packing"), plots);
    }
}

/// What a look at the cluster shows.
#[derive(Default)]
struct Look {
    price: f64,
    nodes: f64,
    pods: f64,
    waiting: f64,
    /// What the requests of the running pods cost at the prices of the KWOK catalogue, which are proportional to cpu and memory (KWK-029).
    requested: f64,
}

/// What a day was like.
struct Day {
    flags: String,
    looks: Vec<Look>,
    launched: usize,
    evictions: f64,
}

/// A cluster with controllers.
struct World {
    client: Client,
    prices: Prices,
    metrics: Metrics,
    shutdown: CancellationToken,
    manager: tokio::task::JoinHandle<Result<(), kerf_controllers::ManagerError>>,
    _log: Option<tracing::subscriber::DefaultGuard>,
    _sandbox: Sandbox,
}

impl World {
    async fn start(flags: &str, seed: u64) -> Self {
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
        let catalogue = match std::env::var("KERF_DAY_CATALOGUE").as_deref() {
            Ok("ec2") => ec2_catalogue(&interner),
            _ => builtin_catalogue(&interner),
        };
        let prices = Prices::new(&catalogue, &interner);
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
            prices,
            metrics,
            shutdown,
            manager,
            _log: log,
            _sandbox: sandbox,
        }
    }

    fn evictions(&self) -> f64 {
        self.metrics.counter(&PODS_EVICTION_REQUESTS).get(&["200"])
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }
}

async fn live(flags: &str, span: Duration, deployments: usize, seed: u64) -> Day {
    let world = World::start(flags, seed).await;
    let mut workload = Workload::start(&world.client, deployments, seed).await;
    let mut launched = BTreeMap::new();
    let mut looks = Vec::new();
    let mut passed = Duration::ZERO;
    while passed < span {
        workload.advance(&world.client, passed).await;
        tokio::time::sleep(LOOK).await;
        passed += LOOK;
        looks.push(look(&world.client, &world.prices, &mut launched).await);
    }
    let evictions = world.evictions();
    world.end().await;
    Day {
        flags: flags.to_owned(),
        looks,
        launched: launched.len(),
        evictions,
    }
}

async fn look(client: &Client, prices: &Prices, launched: &mut BTreeMap<String, ()>) -> Look {
    let mut look = Look::default();
    let claims = Api::<NodeClaim>::all(client.clone()).list(&ListParams::default()).await;
    for claim in claims.expect("listed").items {
        if claim.status.as_ref().is_none_or(|status| status.provider_id.is_none()) {
            continue;
        }
        look.nodes += 1.0;
        look.price += prices.of(&claim);
        launched.insert(claim.metadata.name.unwrap_or_default(), ());
    }
    let pods = Api::<Pod>::all(client.clone()).list(&ListParams::default()).await;
    for pod in pods.expect("listed").items {
        match pod.status.as_ref().and_then(|status| status.phase.as_deref()) {
            Some("Running") => {
                look.pods += 1.0;
                look.requested += price_of_requests(&pod);
            }
            Some("Pending") | None => look.waiting += 1.0,
            Some(_) => {}
        }
    }
    look
}

/// $/h of a core and of a GB of memory (KWK-029).
const CORE: f64 = 0.025;
const GIGABYTE: f64 = 0.001;

/// What the requests of a pod cost; nothing for pods of DaemonSets.
fn price_of_requests(pod: &Pod) -> f64 {
    let owners = pod.metadata.owner_references.iter().flatten();
    if owners.into_iter().any(|owner| owner.kind == "DaemonSet") {
        return 0.0;
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    let amount = |text: &str| text.parse::<Quantity>().map_or(0.0, |amount| amount.to_f64());
    requests
        .flatten()
        .map(|(name, quantity)| match name.as_str() {
            "cpu" => amount(&quantity.0) * CORE,
            "memory" => amount(&quantity.0) / 1e9 * GIGABYTE,
            _ => 0.0,
        })
        .sum()
}

/// What instances cost, by type, zone and capacity type.
struct Prices(BTreeMap<[String; 3], f64>);

const LABELS: [&str; 3] = [
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "karpenter.sh/capacity-type",
];

impl Prices {
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

    fn of(&self, claim: &NodeClaim) -> f64 {
        let label = |key: &str| claim.metadata.labels.as_ref()?.get(key).cloned();
        let key = LABELS.map(|key| label(key).unwrap_or_default());
        *self.0.get(&key).expect("a launched claim names its offering")
    }
}

impl Day {
    fn name(&self) -> &str {
        if self.flags.is_empty() { "defaults" } else { &self.flags }
    }

    fn sum(&self, value: impl Fn(&Look) -> f64) -> f64 {
        self.looks.iter().map(value).sum()
    }
}

fn table(days: &[Day]) -> String {
    let hours = |looks: f64| looks * LOOK.as_secs_f64() / 3_600.0;
    let mut text = "\n| options | $ | relative | requests / price | nodes on average | launched | evictions | pod hours pending |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    let first = days.first().map_or(0.0, |day| day.sum(|look| look.price));
    for day in days {
        let name = if day.flags.is_empty() {
            day.name().to_owned()
        } else {
            format!("`{}`", day.flags)
        };
        let price = day.sum(|look| look.price);
        text += &format!(
            "| {name} | {:.1} | {:.3} | {:.1} % | {:.1} | {} | {:.0} | {:.1} |\n",
            hours(price),
            price / first,
            100.0 * day.sum(|look| look.requested) / price,
            day.sum(|look| look.nodes) / day.looks.len() as f64,
            day.launched,
            day.evictions,
            hours(day.sum(|look| look.waiting)),
        );
    }
    text + "\n"
}

fn curve(days: &[Day], title: &str, unit: &str, value: impl Fn(&Look) -> f64) -> String {
    let series = days.iter().map(|day| {
        let points = day.looks.chunks(LOOKS_PER_POINT).zip(1..).map(|(looks, at)| {
            let hour = f64::from(at) * LOOKS_PER_POINT as f64 * LOOK.as_secs_f64() / 3_600.0;
            (hour, looks.iter().map(&value).sum::<f64>() / looks.len() as f64)
        });
        Series {
            name: day.name().to_owned(),
            points: points.collect(),
            labels: Vec::new(),
        }
    });
    let plot = Plot {
        title,
        x: "hours",
        y: unit,
        series: series.collect(),
    };
    plot.svg(true)
}
