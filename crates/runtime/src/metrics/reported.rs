//! Gauge families whose values are asked for when they are scraped. Whoever reports keeps its own table, which takes a fraction of the memory
//! of a handle for each series: a region has some ten thousand offerings.

use std::sync::Arc;

use super::text;

/// Takes the label values of one series, in the order of its family's definition, and its value.
pub type TakeSeries<'a> = dyn FnMut(&[&str], f64) + 'a;

/// Reports all series of a family.
pub(super) type Report = Arc<dyn Fn(&mut TakeSeries<'_>) + Send + Sync>;

/// A family.
#[derive(Clone)]
pub(super) struct ReportedGauge {
    pub(super) name: String,
    help: &'static str,
    /// Label names with their places in the definition, by name: other families are written in this order, too.
    labels: Vec<(String, usize)>,
    report: Report,
}

impl ReportedGauge {
    pub(super) fn new(name: &str, help: &'static str, labels: Vec<String>, report: Report) -> Self {
        let mut labels: Vec<(String, usize)> = labels.into_iter().zip(0..).collect();
        labels.sort();
        Self {
            name: name.to_owned(),
            help,
            labels,
            report,
        }
    }

    /// Writes the family, unless nothing is reported. A series with another number of label values is left out.
    pub(super) fn write(&self, out: &mut String) {
        let mut has_header = false;
        (self.report)(&mut |values, value| {
            debug_assert_eq!(values.len(), self.labels.len(), "{}", self.name);
            if values.len() != self.labels.len() {
                return;
            }
            if !has_header {
                text::header(out, &self.name, self.help, "gauge");
                has_header = true;
            }
            let pairs = self
                .labels
                .iter()
                .filter_map(|(name, at)| Some((name.as_str(), *values.get(*at)?)));
            text::sample(out, &self.name, "", pairs, None, value);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ExtraLabels, MetricDef, MetricKind, Metrics};

    const fn gauge(name: &'static str, labels: &'static [&'static str]) -> MetricDef {
        MetricDef {
            name: std::borrow::Cow::Borrowed(name),
            kind: MetricKind::Gauge,
            labels,
            extra: ExtraLabels::None,
            help: "Help.",
        }
    }

    #[test]
    fn reported_families_are_written_among_the_others() {
        let (reported, before, after) = (gauge("b", &["zone", "kind"]), gauge("a", &[]), gauge("c", &[]));
        let metrics = Metrics::default();
        metrics.gauge(&after).set(&[], 3.0);
        metrics.gauge(&before).set(&[], 1.0);
        metrics.report(&reported, |take| {
            take(&["z\"1", "m5"], 0.5);
            take(&["z2", "m5"], 1e6);
        });
        metrics.report(&gauge("empty", &[]), |_| {});
        assert_eq!(
            metrics.encode(),
            "# HELP a Help.\n# TYPE a gauge\na 1\n\
             # HELP b Help.\n# TYPE b gauge\nb{kind=\"m5\",zone=\"z\\\"1\"} 0.5\nb{kind=\"m5\",zone=\"z2\"} 1e+06\n\
             # HELP c Help.\n# TYPE c gauge\nc 3\n"
        );
    }
}
