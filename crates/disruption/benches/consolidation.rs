//! A full evaluation of consolidation, several nodes and single ones: `cargo bench -p kerf-disruption --bench consolidation`.
//!
//! Nodes of eight or sixteen cores hold 30 pods each. Where they are half empty much can go, where they are full little can. Where pods of one
//! size pack them nothing can: then every node is looked at in vain. Before criterion's figures it prints one line per row; `KERF_BENCH_ONCE=1` stops
//! after that table. `KERF_BENCH_THREADS` sets the threads (2 without it), `KERF_BENCH_NODES` the largest cluster.
//! Columns: wall time to make the snapshot ready, of the search for several nodes, of the one for single nodes after it, and of all three;
//! how many nodes would go at once, and what that saves per hour.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench measures time and prints"
)]
use criterion::{BatchSize, Criterion};
use jiff::Timestamp;
use kerf_disruption::{
    Allowance, Balance, Class, Consolidation, MultiNodeOutcome, Settings, SingleNodeOutcome, SingleNodeResults, WhatIf,
    candidates, consolidation_options, dollars, interleaved, settling_nodes, unchecked, underutilized,
};
use kerf_model::budget::{DisruptionPolicy, DisruptionReason};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::nodepool::NodePool;
use kerf_model::pod::{Owner, Phase, Pod, PodShape, SpreadConstraint};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::Options;
use kerf_units::duration::GoDuration;
use std::collections::BTreeSet;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PODS: usize = 30;
const APPS: usize = 40;
const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
const MEBI: i64 = 1 << 20;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().expect("a timestamp")
}

fn instance_type(interner: &Interner, cores: i64, family: usize) -> InstanceType {
    let name = interner.intern(&format!("{}{cores}", ["c", "s", "m"][family]));
    let memory = cores * [2, 4, 8][family] * 1024 * MEBI;
    let on_demand = cores as f64 * (0.03 + 0.01 * family as f64);
    let zones = || ZONES.map(|zone| interner.intern(zone));
    let offerings = zones().into_iter().flat_map(|zone| {
        [(sym::ON_DEMAND, on_demand), (sym::SPOT, on_demand * 0.7)].map(|(capacity, price)| Offering {
            requirements: Requirements::from_all(
                [
                    Requirement::is(sym::CAPACITY_TYPE, capacity),
                    Requirement::is(sym::ZONE, zone),
                ],
                interner,
            ),
            price: Price::from_per_hour(price).expect("a price"),
            available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        })
    });
    let requirements = [
        Requirement::is(sym::INSTANCE_TYPE, name),
        Requirement::is(sym::ARCH, interner.intern("amd64")),
        Requirement::is(sym::OS, interner.intern("linux")),
        Requirement::any_of(sym::ZONE, zones()),
        Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::SPOT]),
        Requirement::does_not_exist(sym::REGION),
        Requirement::does_not_exist(sym::WINDOWS_BUILD),
    ];
    InstanceType {
        name,
        requirements: Requirements::from_all(requirements, interner),
        capacity: Resources::new()
            .with(sym::CPU, cores * 1000)
            .with(sym::MEMORY, memory)
            .with(sym::PODS, 110),
        overhead: Resources::new().with(sym::CPU, 100),
        offerings: offerings.collect(),
        price_overlaid: false,
        capacity_overlaid: false,
    }
}

/// The shape of an application's pods; every fourth is spread over zones.
fn shape(app: usize, cpu_m: Option<i64>) -> Arc<PodShape> {
    let name = format!("app-{app}");
    let spread = SpreadConstraint {
        key: sym::ZONE,
        max_skew: 50,
        required: true,
        min_domains: None,
        selector: LabelSelector::all([Match::any_of("app", [Arc::from(name)])]),
        honor_node_affinity: true,
        honor_taints: false,
    };
    Arc::new(PodShape {
        // Where they differ 250 milli-cores on the average.
        requests: Resources::new()
            .with(sym::CPU, cpu_m.unwrap_or(150 + 10 * (app as i64 % 21)))
            .with(sym::MEMORY, 200 * MEBI)
            .with(sym::PODS, 1),
        spread: if app.is_multiple_of(4) {
            vec![spread]
        } else {
            Vec::new()
        },
        ..PodShape::default()
    })
}

/// How full nodes are.
struct Load {
    name: &'static str,
    /// Of a node.
    cores: i64,
    /// What each pod asks for; different amounts if it is not said.
    cpu_m: Option<i64>,
}

const LOADS: [Load; 3] = [
    Load {
        name: "half",
        cores: 16,
        cpu_m: None,
    },
    Load {
        name: "full",
        cores: 8,
        cpu_m: None,
    },
    Load {
        name: "packed",
        cores: 16,
        cpu_m: Some(525),
    },
];

fn cluster(nodes: usize, load: &Load) -> Snapshot {
    let interner = Arc::new(Interner::default());
    let mut snapshot = Snapshot::new(Arc::clone(&interner));
    let types = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256]
        .into_iter()
        .flat_map(|cores| (0..3).map(move |family| (cores, family)));
    let catalogue = Arc::new(Catalogue {
        types: types
            .map(|(cores, family)| instance_type(&interner, cores, family))
            .collect(),
    });
    let label = interner.intern("default");
    let labels = vec![(sym::NODEPOOL, label)];
    let mut requirements = Requirements::from_labels(&labels, &interner);
    requirements.add(Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND), &interner);
    snapshot.pools.push(Arc::new(NodePool {
        requirements,
        labels,
        catalogue: Ok(Arc::clone(&catalogue)),
        disruption: DisruptionPolicy {
            consolidate_after: Some(GoDuration::ZERO),
            ..DisruptionPolicy::default()
        },
        ..NodePool::empty("default".into(), label)
    }));
    let shapes: Vec<(Arc<PodShape>, Arc<LabelSet>)> = (0..APPS)
        .map(|app| {
            let labels: LabelSet = [("app", format!("app-{app}"))].into_iter().collect();
            (shape(app, load.cpu_m), Arc::new(labels))
        })
        .collect();
    let namespace: Arc<str> = "default".into();
    let kind = catalogue
        .types
        .iter()
        .find(|kind| interner.text(kind.name) == format!("c{}", load.cores))
        .expect("a type");
    for number in 0..nodes {
        let name: Arc<str> = format!("node-{number:05}").into();
        let zone = interner.intern(ZONES[number % ZONES.len()]);
        snapshot
            .nodes
            .push(Arc::new(node(&interner, kind, name, zone, label, |at| {
                let (shape, labels) = &shapes[(number * 7 + at) % APPS];
                (Arc::clone(shape), Arc::clone(labels), Arc::clone(&namespace))
            })));
    }
    snapshot
}

fn node(
    interner: &Interner,
    kind: &InstanceType,
    name: Arc<str>,
    zone: Sym,
    pool: Sym,
    pod: impl Fn(usize) -> (Arc<PodShape>, Arc<LabelSet>, Arc<str>),
) -> Node {
    let hour_ago = now() - jiff::SignedDuration::from_hours(1);
    let mut allocatable = kind.capacity.clone();
    allocatable.subtract(&kind.overhead);
    let hostname = interner.intern(&name);
    let mut labels = vec![
        (sym::NODEPOOL, pool),
        (sym::INSTANCE_TYPE, kind.name),
        (sym::ZONE, zone),
        (sym::CAPACITY_TYPE, sym::ON_DEMAND),
        (sym::ARCH, interner.intern("amd64")),
        (sym::OS, interner.intern("linux")),
        (sym::HOSTNAME, hostname),
    ];
    labels.sort_unstable();
    let mut requested = Resources::new();
    let mut pods = Vec::new();
    for at in 0..PODS {
        let (shape, labels, namespace) = pod(at);
        let mut after = requested.clone();
        after.add(&shape.requests);
        if !after.fits(&allocatable) {
            break;
        }
        requested = after;
        let uid: Arc<str> = format!("{name}-{at}").into();
        pods.push(Arc::new(Pod {
            name: Arc::clone(&uid),
            uid,
            namespace,
            labels,
            shape,
            created: hour_ago,
            started: Some(hour_ago),
            phase: Phase::Running,
            ready: Some(true),
            node_name: Some(Arc::clone(&name)),
            owner: Owner::ReplicaSet,
            grace_seconds: Some(30),
            ..Pod::new("", "")
        }));
    }
    Node {
        node_name: Some(Arc::clone(&name)),
        claim_name: Some(Arc::clone(&name)),
        provider_id: Some(Arc::clone(&name)),
        pool: Some(pool),
        registered: true,
        initialized: true,
        labels,
        capacity: kind.capacity.clone(),
        allocatable,
        requested,
        pods,
        created: hour_ago,
        price: kind.offerings.first().map(|offering| offering.price),
        managed: true,
        lifecycle: NodeLifecycle {
            claim_uid: Some(Arc::clone(&name)),
            consolidatable: true,
            initialized_at: Some(hour_ago),
            ready: true,
            ..NodeLifecycle::default()
        },
        ..Node::empty(name, hostname)
    }
}

struct Measured {
    ready: Duration,
    multi: (Duration, MultiNodeOutcome),
    single: (Duration, SingleNodeOutcome),
}

fn evaluate(snapshot: &Snapshot, threads: usize) -> Measured {
    let began = Instant::now();
    let sorted = candidates(snapshot, now(), Class::Graceful, &|_| false);
    let (eligible, _) = underutilized(snapshot, &sorted.free);
    let balance = Balance::new(snapshot, &sorted.free);
    let options = consolidation_options(&Options::default());
    let what_if = WhatIf::new(snapshot, settling_nodes(snapshot, now()), now(), &options).expect("a pool");
    let consolidation = Consolidation {
        what_if: &what_if,
        balance: &balance,
        settings: Settings {
            threads,
            ..Settings::default()
        },
        undone: &[],
        checker: &unchecked,
    };
    let ready = began.elapsed();
    let allowance = Allowance::new(snapshot, DisruptionReason::Underutilized, now());
    let began = Instant::now();
    let multi = consolidation.multi(&eligible, &mut allowance.clone(), &|| false);
    let multi = (began.elapsed(), multi);
    let began = Instant::now();
    let order = interleaved(&eligible, &BTreeSet::new());
    // As in the loop: only where no set of several nodes was found.
    let results = match multi.1.command {
        Some(_) => SingleNodeResults::default(),
        None => multi.1.results.clone(),
    };
    let single = consolidation.single(&order, &allowance, &results, &|| false);
    let single = (began.elapsed(), single);
    Measured { ready, multi, single }
}

fn number(name: &str, otherwise: usize) -> usize {
    let said = std::env::var(name).ok();
    said.and_then(|said| said.parse().ok()).unwrap_or(otherwise)
}

fn main() {
    let (threads, most) = (number("KERF_BENCH_THREADS", 2), number("KERF_BENCH_NODES", 10_000));
    println!("nodes  pods    load       ready     several   single    all       go    saved  alone");
    for nodes in [500, 2_000, 5_000, 10_000].into_iter().filter(|nodes| *nodes <= most) {
        for load in &LOADS {
            let snapshot = cluster(nodes, load);
            let pods: usize = snapshot.nodes.iter().map(|node| node.pods.len()).sum();
            let measured = evaluate(&snapshot, threads);
            let (multi, single) = (&measured.multi, &measured.single);
            let saved = multi.1.command.as_ref().map(|command| dollars(command.savings()));
            println!(
                "{nodes:<6} {pods:<7} {:<6} {:>9.3} {:>9.3} {:>9.3} {:>9.3} s {:>5} {:>8} {:>4}",
                load.name,
                measured.ready.as_secs_f64(),
                multi.0.as_secs_f64(),
                single.0.as_secs_f64(),
                (measured.ready + multi.0 + single.0).as_secs_f64(),
                multi.1.command.as_ref().map_or(0, |command| command.candidates.len()),
                saved.unwrap_or_default(),
                single
                    .1
                    .command
                    .as_ref()
                    .map_or_else(String::new, kerf_disruption::Command::short),
            );
        }
    }
    if std::env::var_os("KERF_BENCH_ONCE").is_some() {
        return;
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    for load in &LOADS {
        let snapshot = cluster(500, load);
        criterion.bench_function(&format!("500 nodes, {}", load.name), |bencher| {
            bencher.iter_batched(
                || (),
                |()| black_box(evaluate(&snapshot, threads).multi.1.command.is_some()),
                BatchSize::PerIteration,
            );
        });
    }
    criterion.final_summary();
}
