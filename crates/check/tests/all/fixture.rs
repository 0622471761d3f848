//! A small cluster, and plans for it that are good until a test spoils them.

#![expect(clippy::disallowed_methods, reason = "plans are made with the model's own functions")]

use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::nodepool::NodePool;
use kerf_model::plan::{Launch, Placement, Plan};
use kerf_model::pod::{AffinityTerm, HostPort, NamespaceScope, Owner, Phase, Pod, PodShape, SpreadConstraint};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use kerf_model::snapshot::{Daemon, Snapshot};
use std::sync::Arc;

pub(crate) fn resources(cpu: i64, memory_gib: i64, pods: i64) -> Resources {
    Resources::new()
        .with(sym::CPU, cpu)
        .with(sym::MEMORY, memory_gib << 30)
        .with(sym::PODS, pods)
}

/// Zones a, b and c; types `small` (2 cores), `medium` (4) and `large` (8); pool `main`; nodes `old-a` and `old-b`; a DaemonSet.
pub(crate) struct Cluster {
    pub(crate) snapshot: Snapshot,
    pub(crate) zones: [Sym; 3],
}

impl Cluster {
    pub(crate) fn new() -> Self {
        let interner = Arc::new(Interner::default());
        let zones = ["a", "b", "c"].map(|zone| interner.intern(zone));
        let mut snapshot = Snapshot::new(Arc::clone(&interner));
        snapshot.namespaces = vec![("default".into(), Arc::default())];
        let catalogue = Arc::new(Catalogue {
            types: [("small", 2, 0.1), ("medium", 4, 0.19), ("large", 8, 0.36)]
                .map(|(name, cores, price)| instance_type(&interner, name, cores, price, &zones))
                .to_vec(),
        });
        snapshot.pools.push(Arc::new(pool(&interner, catalogue)));
        snapshot.daemons.push(Arc::new(Daemon {
            namespace: "kube-system".into(),
            name: "agent".into(),
            shape: Arc::new(PodShape {
                requests: resources(100, 0, 1),
                ..PodShape::default()
            }),
        }));
        for (name, zone) in [("old-a", zones[0]), ("old-b", zones[1])] {
            snapshot.nodes.push(Arc::new(node(&interner, name, zone)));
        }
        Self { snapshot, zones }
    }

    pub(crate) fn pool_mut(&mut self) -> &mut NodePool {
        Arc::make_mut(&mut self.snapshot.pools[0])
    }

    pub(crate) fn node_mut(&mut self, at: usize) -> &mut Node {
        Arc::make_mut(&mut self.snapshot.nodes[at])
    }

    /// What a sound solver would launch for the pods, in one zone if one is given.
    pub(crate) fn launch(&self, zone: Option<usize>, pods: &[Arc<Pod>]) -> Launch {
        let interner = &*self.snapshot.interner;
        let pool = &self.snapshot.pools[0];
        let catalogue = Arc::clone(pool.catalogue.as_ref().expect("the fixture's pool has a catalogue"));
        let mut requests = resources(100, 0, 1);
        let mut requirements = pool.requirements.clone();
        for pod in pods {
            requests.add(&pod.shape.requests);
            requirements.add_all(&pod.shape.node_selector, interner);
        }
        if let Some(zone) = zone {
            requirements.add(Requirement::is(sym::ZONE, self.zones[zone]), interner);
        }
        let types: Vec<u32> = (0..3)
            .filter(|at| requests.fits(&catalogue.types[*at as usize].capacity))
            .collect();
        requirements.add(
            Requirement::any_of(
                sym::INSTANCE_TYPE,
                types.iter().map(|at| catalogue.types[*at as usize].name),
            ),
            interner,
        );
        let first = catalogue.types[types[0] as usize].offerings.iter();
        let cheapest = first.clone().position(|offering| {
            let allowed = requirements.compatible(&offering.requirements, |_| true, interner);
            allowed.is_ok()
        });
        Launch {
            pool: "main".into(),
            catalogue,
            requirements,
            cheapest: cheapest.map(|offering| (types[0], offering as u32)),
            types,
            pods: pods.to_vec(),
            requests,
            min_values_relaxed: false,
            reservations: Vec::new(),
        }
    }

    pub(crate) fn on_existing(&self, node: &str, pods: &[Arc<Pod>]) -> Plan {
        let placement = Placement {
            node: node.into(),
            pods: pods.to_vec(),
        };
        Plan {
            existing: vec![placement],
            ..Plan::default()
        }
    }

    pub(crate) fn launching(&self, launches: Vec<Launch>) -> Plan {
        Plan {
            launches,
            ..Plan::default()
        }
    }
}

fn instance_type(interner: &Interner, name: &str, cores: i64, price: f64, zones: &[Sym; 3]) -> InstanceType {
    let is = |key, value| Requirement::is(key, value);
    InstanceType {
        name: interner.intern(name),
        requirements: Requirements::from_all(
            [
                is(sym::INSTANCE_TYPE, interner.intern(name)),
                is(sym::ARCH, interner.intern("amd64")),
                is(sym::OS, interner.intern("linux")),
                Requirement::any_of(sym::ZONE, *zones),
                Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND]),
            ],
            interner,
        ),
        capacity: resources(cores * 1000, cores * 4, 110),
        overhead: Resources::new(),
        offerings: zones
            .iter()
            .map(|zone| Offering {
                requirements: Requirements::from_all(
                    [is(sym::ZONE, *zone), is(sym::CAPACITY_TYPE, sym::ON_DEMAND)],
                    interner,
                ),
                price: Price::from_per_hour(price).expect("a sound price"),
                available: true,
                reservation: None,
                capacity_override: None,
                overhead_override: None,
            })
            .collect(),
        price_overlaid: false,
        capacity_overlaid: false,
    }
}

fn pool(interner: &Interner, catalogue: Arc<Catalogue>) -> NodePool {
    let label = interner.intern("main");
    let labels = vec![(sym::NODEPOOL, label)];
    let mut requirements = Requirements::from_labels(&labels, interner);
    requirements.add(Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND]), interner);
    NodePool {
        uid: "1".into(),
        requirements,
        labels,
        catalogue: Ok(catalogue),
        ..NodePool::empty("main".into(), label)
    }
}

pub(crate) fn node(interner: &Interner, name: &str, zone: Sym) -> Node {
    let hostname = interner.intern(name);
    let mut labels = vec![
        (sym::HOSTNAME, hostname),
        (sym::ZONE, zone),
        (sym::OS, interner.intern("linux")),
    ];
    labels.sort_unstable();
    Node {
        node_name: Some(name.into()),
        registered: true,
        initialized: true,
        labels,
        capacity: resources(4000, 16, 10).with(sym::NODES, 1),
        allocatable: resources(4000, 16, 10),
        ..Node::empty(name.into(), hostname)
    }
}

/// Binds a pod to a node of the snapshot.
pub(crate) fn bind(node: &mut Node, mut pod: Pod) {
    pod.node_name = Some(Arc::clone(&node.name));
    pod.phase = Phase::Running;
    node.requested.add(&pod.shape.requests);
    node.pods.push(Arc::new(pod));
}

/// A pod of one core and one GiB, labelled `app: web`.
pub(crate) fn web_pod(name: &str, change: impl FnOnce(&mut PodShape)) -> Pod {
    let mut shape = PodShape {
        requests: resources(1000, 1, 1),
        ..PodShape::default()
    };
    change(&mut shape);
    Pod {
        uid: name.into(),
        labels: Arc::new([("app", "web")].into_iter().collect::<LabelSet>()),
        shape: Arc::new(shape),
        owner: Owner::ReplicaSet,
        grace_seconds: Some(30),
        ..Pod::new("default", name)
    }
}

/// So many pods of one shape, named `web-1` and following.
pub(crate) fn replicas(count: usize, change: impl Fn(&mut PodShape)) -> Vec<Arc<Pod>> {
    let shape = web_pod("x", change).shape;
    let one = |at: usize| Pod {
        shape: Arc::clone(&shape),
        ..web_pod(&format!("web-{at}"), |_| {})
    };
    (1..=count).map(|at| Arc::new(one(at))).collect()
}

pub(crate) fn app(value: &str) -> LabelSelector {
    LabelSelector::all([Match::any_of("app", [Arc::from(value)])])
}

pub(crate) fn spread(key: Sym, max_skew: u32) -> SpreadConstraint {
    SpreadConstraint {
        key,
        max_skew,
        required: true,
        min_domains: None,
        selector: app("web"),
        honor_node_affinity: true,
        honor_taints: false,
    }
}

pub(crate) fn term(key: Sym, value: &str) -> AffinityTerm {
    AffinityTerm {
        key,
        selector: app(value),
        namespaces: NamespaceScope {
            names: vec!["default".into()],
            selector: None,
        },
    }
}

pub(crate) fn port(number: u16) -> HostPort {
    HostPort {
        ip: "0.0.0.0".into(),
        port: number,
        protocol: "TCP".into(),
    }
}
