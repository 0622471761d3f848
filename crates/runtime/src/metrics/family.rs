//! Handles of counter, gauge and histogram families.

use prometheus::core::{Collector, MetricVec, MetricVecBuilder};
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

/// One series of a counter family, for callers that count often.
#[derive(Clone, Debug)]
pub struct CounterSeries(Option<prometheus::Counter>);

/// One series of a gauge family, for callers that set it often.
#[derive(Clone, Debug)]
pub struct GaugeSeries(Option<prometheus::Gauge>);

/// One series of a histogram family, for callers that observe often.
#[derive(Clone, Debug)]
pub struct HistogramSeries(Option<prometheus::Histogram>);

/// A series of a family; none when it has other labels.
fn series<B: MetricVecBuilder>(family: Option<&MetricVec<B>>, labels: &[&str]) -> Option<B::M> {
    let series = family?.get_metric_with_label_values(labels);
    debug_assert!(series.is_ok(), "{:?}", series.err());
    series.ok()
}

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
        self.series(labels).add(by);
    }

    /// The series with these label values, which appears at 0.
    pub fn series(&self, labels: &[&str]) -> CounterSeries {
        CounterSeries(series(self.0.as_ref(), labels))
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
        self.series(labels).set(value);
    }

    /// Adds `by`, which may be negative.
    pub fn add(&self, labels: &[&str], by: f64) {
        if let Some(gauge) = self.series(labels).0 {
            gauge.add(by);
        }
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

    /// The series with these label values, which appears at 0.
    pub fn series(&self, labels: &[&str]) -> GaugeSeries {
        GaugeSeries(series(self.0.as_ref(), labels))
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
        self.series(labels).observe(value);
    }

    /// The series with these label values, which appears empty.
    pub fn series(&self, labels: &[&str]) -> HistogramSeries {
        HistogramSeries(series(self.0.as_ref(), labels))
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

impl CounterSeries {
    /// Adds one.
    pub fn inc(&self) {
        self.add(1.0);
    }

    /// Adds `by`. Negative amounts are dropped.
    pub fn add(&self, by: f64) {
        if let (Some(counter), true) = (&self.0, by >= 0.0) {
            counter.inc_by(by);
        }
    }
}

impl GaugeSeries {
    /// Sets the series.
    pub fn set(&self, value: f64) {
        if let Some(gauge) = &self.0 {
            gauge.set(value);
        }
    }
}

impl HistogramSeries {
    /// Records one observation, in the unit of the metric's name.
    pub fn observe(&self, value: f64) {
        if let Some(histogram) = &self.0 {
            histogram.observe(value);
        }
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
