//! Handles of counter, gauge and histogram families.

use prometheus::core::Collector;
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts};

use super::MetricDef;

/// A counter family.
#[derive(Clone, Debug)]
pub struct Counter(Option<CounterVec>);

/// A gauge family.
#[derive(Clone, Debug)]
pub struct Gauge(Option<GaugeVec>);

/// A histogram family.
#[derive(Clone, Debug)]
pub struct Histogram(Option<HistogramVec>);

/// A family that cannot be made (a name or label Prometheus refuses) measures nothing instead of ending the process.
fn made<T>(family: prometheus::Result<T>) -> Option<T> {
    debug_assert!(family.is_ok(), "{:?}", family.err());
    family.ok()
}

impl Counter {
    pub(super) fn new(opts: Opts, labels: &[&str]) -> Self {
        Self(made(CounterVec::new(opts, labels)))
    }

    pub(super) fn detached(def: &MetricDef) -> Self {
        debug_assert!(false, "{} is not a counter", def.name);
        Self(None)
    }

    pub(super) fn collector(&self) -> Box<dyn Collector> {
        boxed(self.0.clone())
    }

    /// Adds one to the series with these label values.
    pub fn inc(&self, labels: &[&str]) {
        self.add(labels, 1.0);
    }

    /// Adds `by`; with 0 the series appears at 0. Negative amounts are dropped.
    pub fn add(&self, labels: &[&str], by: f64) {
        let Some(vec) = &self.0 else { return };
        let series = vec.get_metric_with_label_values(labels);
        debug_assert!(series.is_ok(), "{series:?}");
        if let (Ok(series), true) = (series, by >= 0.0) {
            series.inc_by(by);
        }
    }

    /// The value of a series; 0 when it does not exist.
    pub fn get(&self, labels: &[&str]) -> f64 {
        self.0
            .as_ref()
            .and_then(|v| v.get_metric_with_label_values(labels).ok())
            .map_or(0.0, |c| c.get())
    }
}

impl Gauge {
    pub(super) fn new(opts: Opts, labels: &[&str]) -> Self {
        Self(made(GaugeVec::new(opts, labels)))
    }

    pub(super) fn detached(def: &MetricDef) -> Self {
        debug_assert!(false, "{} is not a gauge", def.name);
        Self(None)
    }

    pub(super) fn collector(&self) -> Box<dyn Collector> {
        boxed(self.0.clone())
    }

    /// Sets the series with these label values.
    pub fn set(&self, labels: &[&str], value: f64) {
        self.with(labels, |gauge| gauge.set(value));
    }

    /// Adds `by`, which may be negative.
    pub fn add(&self, labels: &[&str], by: f64) {
        self.with(labels, |gauge| gauge.add(by));
    }

    /// Deletes one series. Missing is fine.
    pub fn remove(&self, labels: &[&str]) {
        if let Some(vec) = &self.0 {
            // The only error is "no such series".
            let _ = vec.remove_label_values(labels);
        }
    }

    /// Deletes every series.
    pub fn clear(&self) {
        if let Some(vec) = &self.0 {
            vec.reset();
        }
    }

    /// The value of a series; 0 when it does not exist (reading makes none).
    pub fn get(&self, labels: &[&str]) -> f64 {
        let families = self.0.as_ref().map(Collector::collect).unwrap_or_default();
        let found = families
            .iter()
            .flat_map(prometheus::proto::MetricFamily::get_metric)
            .find(|metric| {
                let mut values: Vec<&str> = metric
                    .get_label()
                    .iter()
                    .map(prometheus::proto::LabelPair::value)
                    .collect();
                let mut wanted = labels.to_vec();
                values.sort_unstable();
                wanted.sort_unstable();
                values == wanted
            });
        found.map_or(0.0, |metric| metric.get_gauge().get_value())
    }

    fn with(&self, labels: &[&str], change: impl FnOnce(&prometheus::Gauge)) {
        let Some(vec) = &self.0 else { return };
        let series = vec.get_metric_with_label_values(labels);
        debug_assert!(series.is_ok(), "{series:?}");
        if let Ok(series) = series {
            change(&series);
        }
    }
}

impl Histogram {
    pub(super) fn new(opts: Opts, buckets: &[f64], labels: &[&str]) -> Self {
        let opts = HistogramOpts {
            common_opts: opts,
            buckets: buckets.to_vec(),
        };
        Self(made(HistogramVec::new(opts, labels)))
    }

    pub(super) fn detached(def: &MetricDef) -> Self {
        debug_assert!(false, "{} is not a histogram", def.name);
        Self(None)
    }

    pub(super) fn collector(&self) -> Box<dyn Collector> {
        boxed(self.0.clone())
    }

    /// Records one observation, in the unit of the metric's name.
    pub fn observe(&self, labels: &[&str], value: f64) {
        let Some(vec) = &self.0 else { return };
        let series = vec.get_metric_with_label_values(labels);
        debug_assert!(series.is_ok(), "{series:?}");
        if let Ok(series) = series {
            series.observe(value);
        }
    }

    /// How many observations a series holds.
    pub fn count(&self, labels: &[&str]) -> u64 {
        let series = self
            .0
            .as_ref()
            .and_then(|v| v.get_metric_with_label_values(labels).ok());
        series.map_or(0, |h| h.get_sample_count())
    }
}

fn boxed<C: Collector + 'static>(collector: Option<C>) -> Box<dyn Collector> {
    match collector {
        Some(collector) => Box::new(collector),
        None => Box::new(Nothing),
    }
}

/// The collector of a family that could not be made.
struct Nothing;

impl Collector for Nothing {
    fn desc(&self) -> Vec<&prometheus::core::Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<prometheus::proto::MetricFamily> {
        Vec::new()
    }
}
