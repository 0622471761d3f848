//! Summaries: exact quantiles over a sliding window. The Prometheus crate has the format but no such type.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType, Quantile, Summary as SummaryProto};
use tokio::time::Instant;

use super::MetricDef;

/// The quantiles every summary exports.
const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];
/// Observations older than this no longer count for the quantiles.
const WINDOW: Duration = Duration::from_secs(600);
/// Most observations kept per series: bounds memory, and with it the time of a scrape; the newest win.
const KEPT: usize = 10_000;

/// A summary family. Empty windows export NaN quantiles (OPS-254).
#[derive(Clone, Debug)]
pub struct Summary(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    desc: Option<Desc>,
    name: String,
    help: String,
    labels: Vec<String>,
    series: Mutex<BTreeMap<Vec<String>, Window>>,
}

#[derive(Debug, Default)]
struct Window {
    count: u64,
    sum: f64,
    recent: VecDeque<(Instant, f64)>,
}

impl Summary {
    pub(super) fn new(name: &str, help: &str, labels: Vec<String>) -> Self {
        let desc = Desc::new(
            name.to_owned(),
            help.to_owned(),
            labels.clone(),
            std::collections::HashMap::new(),
        );
        debug_assert!(desc.is_ok(), "{desc:?}");
        Self(Arc::new(Inner {
            desc: desc.ok(),
            name: name.to_owned(),
            help: help.to_owned(),
            labels,
            series: Mutex::default(),
        }))
    }

    pub(super) fn detached(def: &MetricDef) -> Self {
        debug_assert!(false, "{} is not a summary", def.name);
        Self::new(&def.name, def.help, Vec::new())
    }

    /// Records one observation, in the unit of the metric's name.
    pub fn observe(&self, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), self.0.labels.len(), "{}", self.0.name);
        if labels.len() != self.0.labels.len() {
            return;
        }
        let mut series = self.0.series.lock().unwrap_or_else(PoisonError::into_inner);
        let window = series
            .entry(labels.iter().map(ToString::to_string).collect())
            .or_default();
        window.count += 1;
        window.sum += value;
        if window.recent.len() == KEPT {
            window.recent.pop_front();
        }
        window.recent.push_back((Instant::now(), value));
    }

    /// Deletes one series.
    pub fn remove(&self, labels: &[&str]) {
        let key: Vec<String> = labels.iter().map(ToString::to_string).collect();
        self.0
            .series
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&key);
    }
}

impl Window {
    fn export(&mut self, now: Instant) -> SummaryProto {
        while self
            .recent
            .front()
            .is_some_and(|(at, _)| now.duration_since(*at) > WINDOW)
        {
            self.recent.pop_front();
        }
        let mut values: Vec<f64> = self.recent.iter().map(|(_, value)| *value).collect();
        values.sort_by(f64::total_cmp);
        let quantiles = QUANTILES.iter().map(|&quantile| {
            // Nearest rank: the smallest value that at least this share of the window does not exceed.
            let rank = ((values.len() as f64 * quantile).ceil() as usize).saturating_sub(1);
            let mut proto = Quantile::default();
            proto.set_quantile(quantile);
            proto.set_value(values.get(rank).copied().unwrap_or(f64::NAN));
            proto
        });
        let mut proto = SummaryProto::default();
        proto.set_sample_count(self.count);
        proto.set_sample_sum(self.sum);
        proto.set_quantile(quantiles.collect());
        proto
    }
}

impl Collector for Summary {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        let mut series = self.0.series.lock().unwrap_or_else(PoisonError::into_inner);
        let metrics = series.iter_mut().map(|(values, window)| {
            let pairs = self.0.labels.iter().zip(values).map(|(name, value)| {
                let mut pair = LabelPair::default();
                pair.set_name(name.clone());
                pair.set_value(value.clone());
                pair
            });
            let mut metric = Metric::from_label(pairs.collect());
            metric.set_summary(window.export(now));
            metric
        });
        let mut family = MetricFamily::default();
        family.set_name(self.0.name.clone());
        family.set_help(self.0.help.clone());
        family.set_field_type(MetricType::SUMMARY);
        family.set_metric(metrics.collect());
        vec![family]
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Metrics, catalogue};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn quantiles_follow_the_window_and_totals_do_not() {
        let metrics = Metrics::default();
        let summary = metrics.summary(&catalogue::PODS_STARTUP_DURATION);
        for value in 1..=100 {
            summary.observe(&[], f64::from(value));
        }
        let text = metrics.encode();
        for line in [
            // OPS-135
            "# TYPE karpenter_pods_startup_duration_seconds summary",
            "karpenter_pods_startup_duration_seconds{quantile=\"0\"} 1",
            "karpenter_pods_startup_duration_seconds{quantile=\"0.5\"} 50",
            "karpenter_pods_startup_duration_seconds{quantile=\"0.99\"} 99",
            "karpenter_pods_startup_duration_seconds{quantile=\"1\"} 100",
            "karpenter_pods_startup_duration_seconds_sum 5050",
            "karpenter_pods_startup_duration_seconds_count 100",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} not in\n{text}");
        }
        tokio::time::sleep(WINDOW + Duration::from_secs(1)).await;
        let text = metrics.encode();
        // OPS-254
        assert!(
            text.contains("karpenter_pods_startup_duration_seconds{quantile=\"0.5\"} NaN"),
            "{text}"
        );
        assert!(
            text.contains("karpenter_pods_startup_duration_seconds_count 100"),
            "{text}"
        );
    }
}
