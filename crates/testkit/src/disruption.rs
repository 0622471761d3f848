//! Small clusters: pools, nodes and pods with everything set to "may be disrupted", and closures that change it.

use jiff::{SignedDuration, Timestamp};
use kerf_disruption::{
    Allowance, Balance, Candidate, Candidates, Class, Command, Consolidation, MultiNodeOutcome, Settings,
    SingleNodeOutcome, SingleNodeResults, Unconsolidatable, WhatIf, candidates, closed, consolidation_options,
    interleaved, unchecked, underutilized,
};
use kerf_model::budget::{Budget, BudgetFault, DisruptionPolicy, DisruptionReason, NodeShare};
use kerf_model::in_flight::UndoneMove;
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::{Node, NodeLifecycle};
use kerf_model::nodepool::NodePool;
use kerf_model::plan::Launch;
use kerf_model::pod::{Owner, Phase, Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::{Pdb, Snapshot};
use kerf_scheduler::Options;
use kerf_units::duration::GoDuration;
use kerf_units::policy::{Destinations, Replacements};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Noon of the first day of 2026.
pub fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

/// So many seconds before [`now`].
pub fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

/// A cluster under construction. Everything may be disrupted unless a closure changes it.
#[derive(Clone)]
pub struct Cluster {
    /// The cluster so far.
    pub snapshot: Snapshot,
}

impl Default for Cluster {
    fn default() -> Self {
        Self::new()
    }
}

impl Cluster {
    /// One type "small" with two cores at 0.1 per hour, and pool "a" without budgets.
    pub fn new() -> Self {
        let mut cluster = Self {
            snapshot: Snapshot::new(Arc::new(Interner::default())),
        };
        cluster.pool("a", |_| {});
        cluster
    }

    /// The id of a text.
    pub fn s(&self, text: &str) -> Sym {
        self.snapshot.interner.intern(text)
    }

    /// A type with offerings in zone z, on demand and spot at half the price.
    pub fn kind(&self, name: &str, cpu: i64, price: f64) -> InstanceType {
        let offering = |capacity: Sym, price: f64| Offering {
            requirements: Requirements::from_all(
                [
                    Requirement::is(sym::CAPACITY_TYPE, capacity),
                    Requirement::is(sym::ZONE, self.s("z")),
                ],
                &self.snapshot.interner,
            ),
            price: Price::from_per_hour(price).unwrap(),
            available: true,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        };
        let requirements = [
            Requirement::is(sym::INSTANCE_TYPE, self.s(name)),
            Requirement::is(sym::ARCH, self.s("amd64")),
            Requirement::is(sym::OS, self.s("linux")),
            Requirement::is(sym::ZONE, self.s("z")),
            Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::SPOT]),
            Requirement::does_not_exist(sym::REGION),
            Requirement::does_not_exist(sym::WINDOWS_BUILD),
        ];
        InstanceType {
            name: self.s(name),
            requirements: Requirements::from_all(requirements, &self.snapshot.interner),
            capacity: Resources::new().with(sym::CPU, cpu).with(sym::PODS, 110),
            overhead: Resources::new(),
            offerings: vec![offering(sym::ON_DEMAND, price), offering(sym::SPOT, price / 2.0)],
            price_overlaid: false,
            capacity_overlaid: false,
        }
    }

    /// Adds a pool with one type "small", or replaces the pool of that name.
    pub fn pool(&mut self, name: &str, change: impl FnOnce(&mut NodePool)) {
        let label = self.s(name);
        let labels = vec![(sym::NODEPOOL, label)];
        let mut pool = NodePool {
            uid: format!("uid-{name}").into(),
            requirements: Requirements::from_labels(&labels, &self.snapshot.interner),
            labels,
            catalogue: Ok(Arc::new(Catalogue {
                types: vec![self.kind("small", 2000, 0.1)],
            })),
            disruption: DisruptionPolicy {
                consolidate_after: Some(GoDuration::ZERO),
                ..DisruptionPolicy::default()
            },
            ..NodePool::empty(name.into(), label)
        };
        change(&mut pool);
        self.snapshot.pools.retain(|known| *known.name != *name);
        self.snapshot.pools.push(Arc::new(pool));
    }

    /// A node of pool "a" (by name before the dash: `b-1` is of pool b), initialised an hour ago, consolidatable.
    pub fn node(&mut self, name: &str, change: impl FnOnce(&mut Node)) {
        let pool = self.s(name.split('-').next().unwrap());
        let mut labels = vec![
            (sym::NODEPOOL, pool),
            (sym::INSTANCE_TYPE, self.s("small")),
            (sym::ZONE, self.s("z")),
            (sym::CAPACITY_TYPE, sym::ON_DEMAND),
            (sym::ARCH, self.s("amd64")),
            (sym::OS, self.s("linux")),
            (sym::HOSTNAME, self.s(name)),
        ];
        labels.sort_unstable();
        let capacity = Resources::new()
            .with(sym::CPU, 2000)
            .with(sym::PODS, 110)
            .with(sym::NODES, 1);
        let mut node = Node {
            node_name: Some(name.into()),
            claim_name: Some(format!("claim-{name}").into()),
            provider_id: Some(format!("p://{name}").into()),
            pool: Some(pool),
            registered: true,
            initialized: true,
            labels,
            allocatable: capacity.clone(),
            capacity,
            created: ago(3600),
            price: Price::from_per_hour(0.1),
            managed: true,
            lifecycle: NodeLifecycle {
                claim_uid: Some(format!("uid-{name}").into()),
                consolidatable: true,
                initialized_at: Some(ago(3600)),
                ready: true,
                ..NodeLifecycle::default()
            },
            ..Node::empty(name.into(), self.s(name))
        };
        change(&mut node);
        self.snapshot.nodes.push(Arc::new(node));
        self.snapshot.nodes.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// A pod bound to the last node added under that name, with one core's half, owned by a ReplicaSet, running for an hour.
    pub fn bound(&mut self, node: &str, name: &str, change: impl FnOnce(&mut Pod)) {
        let mut pod = self.pod(name, 500);
        pod.node_name = Some(node.into());
        pod.phase = Phase::Running;
        pod.ready = Some(true);
        pod.started = Some(ago(3600));
        change(&mut pod);
        let pod = Arc::new(pod);
        self.change(node, |node| {
            node.requested.add(&pod.shape.requests);
            node.pods.push(pod);
        });
    }

    /// Changes a node of the cluster.
    pub fn change(&mut self, node: &str, change: impl FnOnce(&mut Node)) {
        let mut nodes = self.snapshot.nodes.iter_mut();
        change(Arc::make_mut(nodes.find(|known| *known.name == *node).unwrap()));
    }

    /// Adds a pending pod that asks for so many milli-cores.
    pub fn pending(&mut self, name: &str, cpu: i64) {
        let pod = self.pod(name, cpu);
        self.snapshot.pending.push(Arc::new(pod));
    }

    /// Adds an untried pod that requests `cpu` milli-cores.
    pub fn untried(&mut self, name: &str, cpu: i64) {
        let pod = self.pod(name, cpu);
        self.snapshot.untried.push(Arc::new(pod));
    }

    /// A pod of a ReplicaSet that asks for so many milli-cores; it is not added to the cluster.
    pub fn pod(&self, name: &str, cpu: i64) -> Pod {
        Pod {
            uid: format!("uid-{name}").into(),
            labels: Arc::new([("app", name)].into_iter().collect()),
            shape: Arc::new(PodShape {
                requests: Resources::new().with(sym::CPU, cpu).with(sym::PODS, 1),
                ..PodShape::default()
            }),
            created: ago(7200),
            owner: Owner::ReplicaSet,
            grace_seconds: Some(30),
            ..Pod::new("ns", name)
        }
    }

    /// A budget over all pods of namespace ns that allows nothing now.
    pub fn pdb(&mut self, name: &str, change: impl FnOnce(&mut Pdb)) {
        let mut pdb = Pdb {
            namespace: "ns".into(),
            name: name.into(),
            selector: LabelSelector::all([]),
            disruptions_allowed: 0,
            blocks_always: false,
            always_allow_unhealthy: false,
        };
        change(&mut pdb);
        self.snapshot.pdbs.push(Arc::new(pdb));
    }

    /// Pool `name` with these types (name, milli-cores, dollars on demand, half of that on spot) and on-demand capacity only.
    pub fn typed(&mut self, name: &str, types: &[(&str, i64, f64)], change: impl FnOnce(&mut NodePool)) {
        let types = types
            .iter()
            .map(|(name, cpu, price)| self.kind(name, *cpu, *price))
            .collect();
        self.pool(name, |pool| {
            pool.catalogue = Ok(Arc::new(Catalogue { types }));
            pool.requirements
                .replace(Requirement::is(sym::CAPACITY_TYPE, sym::ON_DEMAND));
            change(pool);
        });
    }

    /// A node of a type of its pool, on-demand unless changed, at the price its offering has.
    pub fn of_kind(&mut self, name: &str, kind: &str, change: impl FnOnce(&mut Node)) {
        let pool = name.split('-').next().unwrap();
        let pool = self.snapshot.pools.iter().find(|known| *known.name == *pool).unwrap();
        let catalogue = Arc::clone(pool.catalogue.as_ref().unwrap());
        let kind_name = self.s(kind);
        let kind = catalogue.types.iter().find(|known| known.name == kind_name).unwrap();
        self.node(name, |node| {
            set_label(node, sym::INSTANCE_TYPE, kind_name);
            node.capacity = kind.capacity.clone().with(sym::NODES, 1);
            node.allocatable = kind.capacity.clone();
            change(node);
            let (zone, capacity) = (node.label(sym::ZONE), node.label(sym::CAPACITY_TYPE));
            let mut offerings = kind.offerings.iter();
            let own = offerings.find(|offering| offering.zone() == zone && offering.capacity_type() == capacity);
            node.price = own.map(|offering| offering.price);
        });
    }

    /// The nodes sorted for a class of methods.
    pub fn sorted(&self, class: Class) -> Candidates {
        candidates(&self.snapshot, now(), class, &|_| false)
    }

    /// Candidates of graceful methods.
    pub fn free(&self) -> Vec<Candidate> {
        self.sorted(Class::Graceful).free
    }

    /// What keeps the only blocked node, as text; empty when none is.
    pub fn blocker(&self, class: Class) -> String {
        let blocked = self.sorted(class).blocked;
        blocked
            .first()
            .map(|(_, blocker)| blocker.to_string())
            .unwrap_or_default()
    }
}

/// Sets a label of a node.
pub fn set_label(node: &mut Node, key: Sym, value: Sym) {
    node.labels.retain(|(known, _)| *known != key);
    node.labels.push((key, value));
    node.labels.sort_unstable();
}

/// Makes a pod ask for so many milli-cores.
pub fn sized(cpu: i64) -> impl FnOnce(&mut Pod) {
    move |pod| {
        let mut shape = (*pod.shape).clone();
        shape.requests.set(sym::CPU, cpu);
        pod.shape = shape.into();
    }
}

/// What consolidation makes of a cluster.
pub struct Asked {
    /// What consolidation may do.
    pub settings: Settings,
    /// Where pods may be moved.
    pub destinations: Destinations,
    /// Moves that did not last.
    pub undone: Vec<UndoneMove>,
    /// How the solver is asked.
    pub solver: Options,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            destinations: Destinations::default(),
            undone: Vec::new(),
            solver: consolidation_options(&Options::default()),
        }
    }
}

impl Asked {
    /// Commands may have several replacements.
    pub fn several_replacements() -> Self {
        Self {
            settings: Settings {
                replacements: Replacements::Several,
                ..Settings::default()
            },
            ..Self::default()
        }
    }

    /// Calls `look` with the consolidation of a cluster and the candidates it may choose from.
    pub fn with<T>(&self, cluster: &Cluster, look: impl FnOnce(&Consolidation<'_>, &[Candidate]) -> T) -> T {
        let free = cluster.free();
        let balance = Balance::new(&cluster.snapshot, &free);
        let closed = closed(self.destinations, &cluster.snapshot, now());
        let what_if = WhatIf::new(&cluster.snapshot, closed, now(), &self.solver).unwrap();
        let consolidation = Consolidation {
            what_if: &what_if,
            balance: &balance,
            settings: self.settings,
            undone: &self.undone,
            checker: &unchecked,
        };
        let (eligible, _) = underutilized(&cluster.snapshot, &free);
        look(&consolidation, &eligible)
    }

    /// The command for the named nodes.
    pub fn propose(&self, cluster: &Cluster, names: &[&str]) -> Result<Command, Unconsolidatable> {
        self.with(cluster, |consolidation, _| {
            let free = cluster.free();
            let chosen: Vec<&Candidate> = free
                .iter()
                .filter(|candidate| names.contains(&&*candidate.node.name))
                .collect();
            assert_eq!(chosen.len(), names.len(), "all are candidates");
            consolidation.propose(&chosen)
        })
    }

    /// What multi-node consolidation finds, without limits.
    pub fn multi(&self, cluster: &Cluster) -> MultiNodeOutcome {
        self.with(cluster, |consolidation, eligible| {
            let mut allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now());
            consolidation.multi(eligible, &mut allowance, &|| false)
        })
    }

    /// What single-node consolidation finds, without limits.
    pub fn single(&self, cluster: &Cluster) -> SingleNodeOutcome {
        self.with(cluster, |consolidation, eligible| {
            let allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now());
            let order = interleaved(eligible, &BTreeSet::new());
            consolidation.single(&order, &allowance, &SingleNodeResults::default(), &|| false)
        })
    }
}

/// The texts of the types a launch offers, in its order.
pub fn types_of(cluster: &Cluster, launch: &Launch) -> Vec<String> {
    let kinds = launch
        .types
        .iter()
        .map(|number| &launch.catalogue.types[*number as usize]);
    kinds
        .map(|kind| cluster.snapshot.interner.text(kind.name).to_owned())
        .collect()
}

/// A command in its short form, or why there is none.
pub fn text(outcome: &Result<Command, Unconsolidatable>) -> String {
    match outcome {
        Ok(command) => command.short(),
        Err(why) => why.message(),
    }
}

/// The names of candidates.
pub fn names(candidates: &[Candidate]) -> Vec<&str> {
    candidates.iter().map(|candidate| &*candidate.node.name).collect()
}

/// A budget without reasons and schedule, from its `nodes`.
pub fn budget(nodes: &str) -> Result<Budget, BudgetFault> {
    let nodes = NodeShare::parse(nodes).ok_or_else(|| BudgetFault(format!("nodes {nodes:?}").into()))?;
    Ok(Budget {
        reasons: None,
        nodes,
        window: None,
    })
}
