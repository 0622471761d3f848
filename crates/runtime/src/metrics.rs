//! The metrics registry: typed handles over Prometheus families, made from the definitions of [`catalogue`].
//!
//! A family appears in a scrape once it has a series, and it is registered when its handle is first asked for; so a
//! controller that is not built leaves no trace (OPS-253). Handles never panic: a wrong number of label values is a
//! programming error that debug builds assert and release builds drop.

pub mod buckets;
mod capped;
pub mod catalogue;
mod conditions;
mod family;
mod process;
mod reported;
mod series;
mod summary;
mod text;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::{Opts, Registry};
use reported::ReportedGauge;

pub use capped::Capped;
pub use conditions::{StatusConditions, status_conditions};
pub use family::{Counter, CounterSeries, Gauge, GaugeSeries, Histogram, HistogramSeries};
pub use reported::TakeSeries;
pub use series::{Sample, Series};
pub use summary::Summary;

/// The media type of a scrape.
pub const CONTENT_TYPE: &str = prometheus::TEXT_FORMAT;

/// Label names a family gets beyond its own, fixed when the registry is made (OPS-142, OPS-171).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExtraLabels {
    /// None.
    None,
    /// One per well-known label.
    WellKnown,
    /// One per supported node class, and the pool.
    NodeClaim,
    /// As for node claims, and whether the node is initialized.
    Node,
}

/// What a family measures with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts observations in buckets with these upper bounds.
    Histogram(&'static [f64]),
    /// Quantiles 0, 0.5, 0.9, 0.99 and 1 over the last ten minutes.
    Summary,
}

/// One metric family as [`catalogue`] lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricDef {
    /// Full name.
    pub name: std::borrow::Cow<'static, str>,
    /// Type, with buckets.
    pub kind: MetricKind,
    /// Label names in order.
    pub labels: &'static [&'static str],
    /// Labels that depend on the provider; they follow `labels`.
    pub extra: ExtraLabels,
    /// Help text.
    pub help: &'static str,
}

/// Labels that are known only once the provider is.
#[derive(Clone, Debug, Default)]
pub struct LabelNames {
    /// Well-known node labels as metric label names, for example `instance_type`.
    pub well_known: Vec<String>,
    /// Supported node class label keys as metric label names, for example `karpenter_kwok_sh_kwoknodeclass`.
    pub node_classes: Vec<String>,
}

impl LabelNames {
    /// A label key of an object as a metric label: the text after the last `/`, lower case, `-` as `_` (OPS-142).
    pub fn short(label_key: &str) -> String {
        label_key
            .rsplit('/')
            .next()
            .unwrap_or(label_key)
            .to_lowercase()
            .replace('-', "_")
    }

    /// A label key of an object as a metric label, group included: `/`, `.` and `-` as `_` (OPS-171).
    pub fn long(label_key: &str) -> String {
        label_key.replace(['/', '.', '-'], "_")
    }

    fn of(&self, def: &MetricDef) -> Vec<String> {
        let own = def.labels.iter().map(ToString::to_string);
        let pool = || LabelNames::long("karpenter.sh/nodepool");
        match def.extra {
            ExtraLabels::None => own.collect(),
            ExtraLabels::WellKnown => own.chain(self.well_known.iter().cloned()).collect(),
            ExtraLabels::NodeClaim => own.chain(self.node_classes.iter().cloned()).chain([pool()]).collect(),
            ExtraLabels::Node => own
                .chain(self.node_classes.iter().cloned())
                .chain([pool(), LabelNames::long("karpenter.sh/initialized")])
                .collect(),
        }
    }
}

/// The registry of one process (or of one simulated controller). Cloning is cheap.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Registry,
    labels: LabelNames,
    families: Mutex<BTreeMap<String, Family>>,
    before_scrape: Mutex<Vec<Refresh>>,
    /// By name.
    reported: Mutex<BTreeMap<String, ReportedGauge>>,
}

/// Brings gauges up to date before a scrape; returns whether to be called again.
type Refresh = Arc<dyn Fn() -> bool + Send + Sync>;

#[derive(Clone)]
enum Family {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
    Summary(Summary),
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(LabelNames::default())
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// An empty registry; `labels` are the label names the provider decides.
    pub fn new(labels: LabelNames) -> Self {
        Self(Arc::new(Inner {
            registry: Registry::new(),
            labels,
            families: Mutex::default(),
            before_scrape: Mutex::default(),
            reported: Mutex::default(),
        }))
    }

    /// The counter family `def`; a definition of another type gives a handle that is not scraped.
    pub fn counter(&self, def: &MetricDef) -> Counter {
        match self.family(def) {
            Family::Counter(counter) => counter,
            Family::Gauge(_) | Family::Histogram(_) | Family::Summary(_) => Counter::detached(def),
        }
    }

    /// The gauge family `def`.
    pub fn gauge(&self, def: &MetricDef) -> Gauge {
        match self.family(def) {
            Family::Gauge(gauge) => gauge,
            Family::Counter(_) | Family::Histogram(_) | Family::Summary(_) => Gauge::detached(def),
        }
    }

    /// The histogram family `def`.
    pub fn histogram(&self, def: &MetricDef) -> Histogram {
        match self.family(def) {
            Family::Histogram(histogram) => histogram,
            Family::Counter(_) | Family::Gauge(_) | Family::Summary(_) => Histogram::detached(def),
        }
    }

    /// The summary family `def`.
    pub fn summary(&self, def: &MetricDef) -> Summary {
        match self.family(def) {
            Family::Summary(summary) => summary,
            Family::Counter(_) | Family::Gauge(_) | Family::Histogram(_) => Summary::detached(def),
        }
    }

    /// The label names of `def` in this registry, in the order handles take their values.
    pub fn label_names(&self, def: &MetricDef) -> Vec<String> {
        self.0.labels.of(def)
    }

    /// Adds a collector that reads its series from somewhere else at scrape time.
    pub fn register(&self, collector: Box<dyn Collector>) -> Result<(), prometheus::Error> {
        self.0.registry.register(collector)
    }

    /// Adds the `process_*` families of this process (OPS-180). One registry per process should.
    pub fn register_process(&self) -> Result<(), prometheus::Error> {
        self.register(Box::new(process::ProcessCollector::new()?))
    }

    /// Sets `karpenter_build_info` (OPS-114). `toolchain` fills the label that upstream calls `goversion`.
    pub fn set_build_info(&self, version: &str, toolchain: &str, arch: &str, commit: &str) {
        self.gauge(&catalogue::BUILD_INFO)
            .set(&[version, toolchain, arch, commit], 1.0);
    }

    /// Calls `refresh` before each scrape, until it returns false: for gauges of running time.
    pub fn before_scrape(&self, refresh: impl Fn() -> bool + Send + Sync + 'static) {
        self.0
            .before_scrape
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Arc::new(refresh));
    }

    /// Asks `report` for the series of a gauge family at each scrape, in place of an earlier report of that family. A family that also has a
    /// handle would be written twice.
    pub fn report(&self, def: &MetricDef, report: impl Fn(&mut TakeSeries<'_>) + Send + Sync + 'static) {
        debug_assert_eq!(def.kind, MetricKind::Gauge, "{} is not a gauge", def.name);
        let gauge = ReportedGauge::new(&def.name, def.help, self.0.labels.of(def), Arc::new(report));
        let mut all = self.0.reported.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(def.name.clone().into_owned(), gauge);
    }

    /// One scrape in the Prometheus text format.
    pub fn encode(&self) -> String {
        // Called without the lock, so that a refresh may itself register one.
        let refresh = self
            .0
            .before_scrape
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let ended: Vec<Refresh> = refresh.into_iter().filter(|refresh| !refresh()).collect();
        if !ended.is_empty() {
            let mut kept = self.0.before_scrape.lock().unwrap_or_else(PoisonError::into_inner);
            kept.retain(|refresh| !ended.iter().any(|end| Arc::ptr_eq(end, refresh)));
        }
        let reported = self.0.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let reported: Vec<ReportedGauge> = reported.values().cloned().collect();
        text::encode(&self.0.registry.gather(), &reported)
    }

    fn family(&self, def: &MetricDef) -> Family {
        let mut families = self.0.families.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(family) = families.get(def.name.as_ref()) {
            return family.clone();
        }
        let labels = self.0.labels.of(def);
        let names: Vec<&str> = labels.iter().map(String::as_str).collect();
        let opts = || Opts::new(def.name.as_ref(), def.help);
        let (family, collector): (Family, Box<dyn Collector>) = match def.kind {
            MetricKind::Counter => {
                let counter = Counter::new(opts(), &names);
                (Family::Counter(counter.clone()), counter.collector())
            }
            MetricKind::Gauge => {
                let gauge = Gauge::new(opts(), &names);
                (Family::Gauge(gauge.clone()), gauge.collector())
            }
            MetricKind::Histogram(buckets) => {
                let histogram = Histogram::new(opts(), buckets, &names);
                (Family::Histogram(histogram.clone()), histogram.collector())
            }
            MetricKind::Summary => {
                let summary = Summary::new(def.name.as_ref(), def.help, labels);
                (Family::Summary(summary.clone()), Box::new(summary))
            }
        };
        let registered = self.0.registry.register(collector);
        debug_assert!(registered.is_ok(), "{}: {registered:?}", def.name);
        families.insert(def.name.clone().into_owned(), family.clone());
        family
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOBS: MetricDef = MetricDef {
        name: std::borrow::Cow::Borrowed("jobs_total"),
        kind: MetricKind::Counter,
        labels: &["result"],
        extra: ExtraLabels::None,
        help: "Jobs.",
    };

    #[test]
    fn a_family_is_registered_once_and_shared() {
        let metrics = Metrics::default();
        metrics.counter(&JOBS).inc(&["ok"]);
        metrics.counter(&JOBS).add(&["ok"], 2.0);
        assert_eq!(
            metrics.encode(),
            "# HELP jobs_total Jobs.\n# TYPE jobs_total counter\njobs_total{result=\"ok\"} 3\n"
        );
    }

    #[test]
    fn a_family_without_series_leaves_no_trace() {
        // OPS-253
        let metrics = Metrics::default();
        let _handle = metrics.gauge(&catalogue::NODES_ALLOCATABLE);
        assert_eq!(metrics.encode(), "");
    }

    #[test]
    fn provider_labels_are_part_of_the_family() {
        let names = LabelNames {
            well_known: ["kubernetes.io/arch", "node.kubernetes.io/instance-type"]
                .map(LabelNames::short)
                .to_vec(),
            node_classes: vec![LabelNames::long("karpenter.kwok.sh/kwoknodeclass")],
        };
        let metrics = Metrics::new(names);
        // OPS-131, OPS-142
        assert_eq!(
            metrics.label_names(&catalogue::NODES_ALLOCATABLE),
            [
                "node_name",
                "phase",
                "managed",
                "resource_type",
                "arch",
                "instance_type"
            ]
        );
        // OPS-171
        let node = status_conditions("node");
        assert_eq!(
            metrics.label_names(&node.termination_duration_seconds),
            [
                "karpenter_kwok_sh_kwoknodeclass",
                "karpenter_sh_nodepool",
                "karpenter_sh_initialized"
            ]
        );
        let pool = status_conditions("nodepool");
        assert_eq!(
            metrics.label_names(&pool.condition_count),
            ["namespace", "name", "type", "status", "reason"]
        );
    }

    #[test]
    fn build_info_is_one() {
        // OPS-114
        let metrics = Metrics::default();
        metrics.set_build_info("1.14.1", "rustc", "amd64", "abcdef0");
        let text = metrics.encode();
        let line = text
            .lines()
            .find(|l| l.starts_with("karpenter_build_info"))
            .expect("a sample");
        for label in [
            "version=\"1.14.1\"",
            "goversion=\"rustc\"",
            "goarch=\"amd64\"",
            "commit=\"abcdef0\"",
        ] {
            assert!(line.contains(label), "{line}");
        }
        assert!(line.ends_with(" 1"));
    }
}
