//! The reference benchmark's cluster and pods (section 29 of `docs/behaviour/scheduling.md`), from a fixed generator: the same distributions,
//! seed 42, drawn from SplitMix64 afresh for every workload.

use crate::draw::Draw;
use jiff::Timestamp;
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::nodepool::NodePool;
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod, PodShape, SpreadConstraint};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

const GI: i64 = 1 << 30;
const MI: i64 = 1 << 20;

/// `count` types `fake-it-<i>`: cpu i+1, twice as many GiB, five offerings each (SCH-436, SCH-437).
pub fn catalogue(interner: &Interner, count: usize) -> Catalogue {
    let s = |text: &str| interner.intern(text);
    let zones = ["test-zone-1", "test-zone-2", "test-zone-3"].map(s);
    let types = (0..count).map(|i| {
        let cpu = i as i64 + 1;
        let memory = 2 * cpu * GI;
        let large = cpu > 4 && memory > 8 * GI;
        let price = Price::from_per_hour(0.1 * cpu as f64 + 0.1 * memory as f64 / 1e9).expect("a positive price");
        let offering = |(capacity, zone): (Sym, Sym)| Offering {
            requirements: Requirements::from_all(
                [
                    Requirement::is(sym::CAPACITY_TYPE, capacity),
                    Requirement::is(sym::ZONE, zone),
                ],
                interner,
            ),
            price,
            available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        };
        let all = [
            (sym::SPOT, zones[0]),
            (sym::SPOT, zones[1]),
            (sym::ON_DEMAND, zones[0]),
            (sym::ON_DEMAND, zones[1]),
            (sym::ON_DEMAND, zones[2]),
        ];
        let name = s(&format!("fake-it-{i}"));
        let special = s("special");
        InstanceType {
            name,
            requirements: Requirements::from_all(
                [
                    Requirement::is(sym::INSTANCE_TYPE, name),
                    Requirement::is(sym::ARCH, s("amd64")),
                    Requirement::any_of(sym::OS, ["linux", "windows", "darwin"].map(s)),
                    Requirement::any_of(sym::ZONE, zones),
                    Requirement::any_of(sym::CAPACITY_TYPE, [sym::SPOT, sym::ON_DEMAND]),
                    Requirement::does_not_exist(sym::REGION),
                    Requirement::does_not_exist(sym::WINDOWS_BUILD),
                    Requirement::is(s("size"), s(if large { "large" } else { "small" })),
                    if large {
                        Requirement::is(special, s("optional"))
                    } else {
                        Requirement::does_not_exist(special)
                    },
                    Requirement::is(s("integer"), s(&cpu.to_string())),
                ],
                interner,
            ),
            capacity: Resources::new()
                .with(sym::CPU, cpu * 1000)
                .with(sym::MEMORY, memory)
                .with(sym::PODS, 10 * cpu),
            overhead: Resources::new().with(sym::CPU, 100).with(sym::MEMORY, 10 * MI),
            offerings: all.into_iter().map(offering).collect(),
            price_overlaid: false,
            capacity_overlaid: false,
        }
    });
    Catalogue { types: types.collect() }
}

/// The empty cluster with its one pool (SCH-435).
pub fn cluster(types: usize) -> Snapshot {
    let interner = Arc::new(Interner::default());
    let catalogue = Arc::new(catalogue(&interner, types));
    let name = interner.intern("default");
    let mut labels = vec![
        (interner.intern("testing/cluster"), interner.intern("unspecified")),
        (sym::NODEPOOL, name),
    ];
    labels.sort_unstable();
    let mut snapshot = Snapshot::new(Arc::clone(&interner));
    snapshot.pools.push(Arc::new(NodePool {
        uid: "pool".into(),
        requirements: Requirements::from_labels(&labels, &interner),
        labels,
        template_labels: Arc::new([("testing/cluster", "unspecified")].into_iter().collect()),
        limits: Some(
            Resources::new()
                .with(sym::CPU, 10_000_000_000)
                .with(sym::MEMORY, 10_000_000 * GI),
        ),
        catalogue: Ok(catalogue),
        ..NodePool::empty("default".into(), name)
    }));
    snapshot
}

fn selector(key: &str, value: &str) -> LabelSelector {
    LabelSelector::all([Match::any_of(key, [Arc::from(value)])])
}

fn term(key: Sym, label: &str, value: &str) -> AffinityTerm {
    AffinityTerm {
        key,
        selector: selector(label, value),
        namespaces: NamespaceScope {
            names: vec!["default".into()],
            selector: None,
        },
    }
}

const LABELS: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];

fn requests(draw: &mut Draw) -> Resources {
    let cpu = draw.pick(&[100, 250, 500, 1000, 1500]);
    let memory = draw.pick(&[100, 256, 512, 1024, 2048, 4096]);
    Resources::new()
        .with(sym::CPU, cpu)
        .with(sym::MEMORY, memory * MI)
        .with(sym::PODS, 1)
}

/// A pod of the reference kind (SCH-448), created `number` nanoseconds into the epoch.
pub fn reference_pod(number: usize, labels: &[(&str, &str)], shape: PodShape) -> Arc<Pod> {
    let labels: LabelSet = labels
        .iter()
        .copied()
        .chain([("testing/cluster", "unspecified")])
        .collect();
    Arc::new(Pod {
        uid: format!("uid-{number:08}").into(),
        labels: Arc::new(labels),
        shape: Arc::new(shape),
        created: Timestamp::from_nanosecond(number as i128).expect("a time near the epoch"),
        grace_seconds: Some(30),
        ..Pod::new("default", &format!("pod-{number}"))
    })
}

/// The diverse mix (SCH-440 to SCH-444).
pub fn diverse(count: usize) -> Vec<Arc<Pod>> {
    let mut draw = Draw::new(42);
    let n = count / 5;
    let kinds = [(n, 0), (n, 1), (n, 2), (n, 3), (n, 4), (count - 5 * n, 0)];
    let mut pods = Vec::with_capacity(count);
    for (many, kind) in kinds {
        for _ in 0..many {
            let number = pods.len();
            pods.push(diverse_pod(number, kind, &mut draw));
        }
    }
    pods
}

/// One pod of the mix: 0 is generic, then zone spread, hostname spread, zone affinity, hostname anti-affinity.
pub fn diverse_pod(number: usize, kind: u8, draw: &mut Draw) -> Arc<Pod> {
    let mut shape = PodShape::default();
    let label = match kind {
        1 | 2 => {
            let label = ("my-label", draw.pick(&LABELS));
            shape.spread.push(SpreadConstraint {
                key: if kind == 1 { sym::ZONE } else { sym::HOSTNAME },
                max_skew: 1,
                required: true,
                min_domains: None,
                selector: selector("my-label", draw.pick(&LABELS)),
                honor_node_affinity: true,
                honor_taints: false,
            });
            label
        }
        3 => {
            let value = draw.pick(&LABELS);
            shape.affinity.push(term(sym::ZONE, "my-affininity", value));
            ("my-affininity", value)
        }
        4 => {
            shape.anti_affinity.push(term(sym::HOSTNAME, "app", "nginx"));
            ("app", "nginx")
        }
        _ => ("my-label", draw.pick(&LABELS)),
    };
    shape.requests = requests(draw);
    reference_pod(number, &[label], shape)
}

/// Pods that only ask for resources, from small to large and of every proportion.
pub fn plain(count: usize) -> Vec<Arc<Pod>> {
    let mut draw = Draw::new(42);
    let one = |number| {
        let requests = Resources::new()
            .with(sym::CPU, draw.pick(&[100, 250, 500, 1000, 2000, 4000, 8000]))
            .with(sym::MEMORY, draw.pick(&[128, 512, 1024, 2048, 4096, 8192, 16384]) * MI)
            .with(sym::PODS, 1);
        reference_pod(
            number,
            &[],
            PodShape {
                requests,
                ..PodShape::default()
            },
        )
    };
    (0..count).map(one).collect()
}

/// The preference mix (SCH-445).
pub fn preferences(count: usize, interner: &Interner) -> Vec<Arc<Pod>> {
    let mut draw = Draw::new(42);
    let requests = requests(&mut draw);
    let zone = Requirement::is(sym::ZONE, interner.intern("test-zone-1"));
    let shape = PodShape {
        requests,
        preferred_terms: vec![(1, vec![zone])],
        preferred_anti_affinity: vec![
            (10, term(sym::ZONE, "app", "nginx")),
            (1, term(sym::HOSTNAME, "app", "nginx")),
        ],
        ..PodShape::default()
    };
    (0..count)
        .map(|number| reference_pod(number, &[("app", "nginx")], shape.clone()))
        .collect()
}
