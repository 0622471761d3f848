//! Metrics about nodes: capacity, requests, limits (`metrics.node`, OPS-131 to OPS-133, OPS-262).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::pod::Owner;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::CancellationToken;
use kerf_runtime::metrics::{Gauge, LabelNames, MetricDef, Sample, Series, catalogue};

use super::units;
use crate::changes::Change;
use crate::context::Context;
use crate::reconciler::LeaderTask;

/// `metrics.node`. Values are computed at scrape time: updating thousands of nodes every few seconds would cost more than all decisions.
pub(crate) struct NodeReport {
    context: Context,
    /// Whether this process leads.
    leads: AtomicBool,
    series: Series,
    /// Well-known label keys by the name of their metric label.
    well_known: BTreeMap<String, Sym>,
}

/// A family with its label names.
struct Family {
    name: &'static str,
    gauge: Gauge,
    labels: Vec<String>,
}

impl NodeReport {
    pub(crate) fn new(context: &Context) -> Arc<Self> {
        let rules = &context.provider.profile().vocabulary.labels;
        let well_known = rules
            .well_known()
            .map(|key| (LabelNames::short(key), context.interner.intern(key)));
        let this = Arc::new(Self {
            leads: AtomicBool::new(false),
            series: Series::default(),
            well_known: well_known.collect(),
            context: context.clone(),
        });
        let looked_at = Arc::downgrade(&this);
        let refresh = move || looked_at.upgrade().map(|this| this.report()).is_some();
        context.metrics.before_scrape(refresh);
        this
    }

    fn family(&self, def: &'static MetricDef) -> Family {
        Family {
            name: &def.name,
            gauge: self.context.metrics.gauge(def),
            labels: self.context.metrics.label_names(def),
        }
    }

    fn report(&self) {
        if !self.leads.load(Ordering::Relaxed) {
            return;
        }
        let now = self.context.now();
        let snapshot = self.context.cluster.snapshot(now);
        let families = [
            self.family(&catalogue::NODES_ALLOCATABLE),
            self.family(&catalogue::NODES_TOTAL_POD_REQUESTS),
            self.family(&catalogue::NODES_TOTAL_DAEMON_REQUESTS),
            self.family(&catalogue::NODES_SYSTEM_OVERHEAD),
            self.family(&catalogue::NODES_TOTAL_POD_LIMITS),
            self.family(&catalogue::NODES_TOTAL_DAEMON_LIMITS),
        ];
        let limits = self.limits();
        let lifetime = self.family(&catalogue::NODES_CURRENT_LIFETIME);
        let mut keys = BTreeSet::new();
        for node in snapshot.nodes.iter().filter(|node| node.node_name.is_some()) {
            let mut samples = Vec::new();
            let limits = node.node_name.as_ref().and_then(|name| limits.get(name));
            let amounts = amounts(node).into_iter().chain(limits.cloned().unwrap_or_default());
            for (family, resources) in families.iter().zip(amounts) {
                for (kind, value) in units::of_node(&resources, &self.context.interner) {
                    samples.push(self.sample(family, node, &kind, value));
                }
            }
            samples.push(self.sample(&lifetime, node, "", age(node, now)));
            self.series.replace(&node.name, samples);
            keys.insert(node.name.to_string());
        }
        self.series.retain(&keys);
        let utilization = self.context.metrics.gauge(&catalogue::CLUSTER_UTILIZATION_PERCENT);
        for (kind, percent) in utilized(&snapshot, &self.context.interner) {
            utilization.set(&[&kind], percent);
        }
    }

    /// The limits of pods, and those of daemons, that run on each Node.
    fn limits(&self) -> BTreeMap<Arc<str>, [Resources; 2]> {
        let mut limits: BTreeMap<Arc<str>, [Resources; 2]> = BTreeMap::new();
        for (pod, measures) in self.context.cluster.measured_pods() {
            let Some(node) = pod.node_name.clone().filter(|_| !pod.phase.is_terminal()) else {
                continue;
            };
            let [of_pods, of_daemons] = limits.entry(node).or_default();
            let total = if pod.owner == Owner::DaemonSet {
                of_daemons
            } else {
                of_pods
            };
            total.add(&measures.limits);
        }
        limits
    }

    fn sample(&self, family: &Family, node: &Node, kind: &str, value: f64) -> Sample {
        let text = |label: &String| match label.as_str() {
            "node_name" => node.node_name.as_deref().unwrap_or_default().to_owned(),
            "managed" => node.managed.to_string(),
            "resource_type" => kind.to_owned(),
            // Nodes have not had a phase since long before v1.
            "phase" => String::new(),
            other => {
                let key = self.well_known.get(other);
                let value = key.and_then(|key| node.label(*key));
                value.map_or("", |value| self.context.interner.text(value)).to_owned()
            }
        };
        Sample {
            gauge: family.gauge.clone(),
            family: family.name,
            labels: family.labels.iter().map(text).collect(),
            value,
        }
    }
}

/// Allocatable, requests of pods, requests of daemons, and system overhead.
fn amounts(node: &Node) -> [Resources; 4] {
    let less = |of: &Resources, part: &Resources| {
        let mut left = of.clone();
        left.subtract(part);
        left.iter()
            .filter(|(name, _)| of.contains(*name))
            .collect::<Resources>()
    };
    [
        node.allocatable.clone(),
        less(&node.requested, &node.daemon_requested),
        node.daemon_requested.clone(),
        less(&node.capacity, &node.allocatable),
    ]
}

fn age(node: &Node, now: Timestamp) -> f64 {
    now.duration_since(node.created).as_secs_f64()
}

/// The requested share of each resource of all nodes together, in per cent (OPS-133).
fn utilized(snapshot: &Snapshot, interner: &Interner) -> Vec<(String, f64)> {
    let (mut allocatable, mut requested) = (Resources::new(), Resources::new());
    for node in snapshot.nodes.iter().filter(|node| node.node_name.is_some()) {
        allocatable.add(&node.allocatable);
        requested.add(&node.requested);
    }
    let there = allocatable
        .iter()
        .filter(|(name, amount)| *amount > 0 && *name != sym::NODES);
    let percent = |(name, amount): (Sym, i64)| {
        let share = 100.0 * requested.get(name) as f64 / amount as f64;
        (units::resource_type(interner.text(name)), share)
    };
    there.map(percent).collect()
}

#[async_trait]
impl LeaderTask for NodeReport {
    fn name(&self) -> &'static str {
        "metrics.node"
    }

    fn notify(&self, _change: &Change) {}

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        self.leads.store(true, Ordering::Relaxed);
        shutdown.cancelled().await;
    }
}
