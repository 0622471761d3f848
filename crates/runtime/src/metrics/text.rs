//! The Prometheus text format with numbers as Go writes them: dashboards match bucket bounds as text (`le="1e-08"`,
//! `le="1.296e+06"`), which other languages print differently.

use std::fmt::Write as _;

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::reported::ReportedGauge;

/// Writes families by name; both lists are sorted by it.
pub(super) fn encode(families: &[MetricFamily], reported: &[ReportedGauge]) -> String {
    let mut out = String::new();
    let mut reported = reported.iter().peekable();
    for family in families.iter().filter(|family| !family.get_metric().is_empty()) {
        let name = family.name();
        while let Some(earlier) = reported.next_if(|one| one.name.as_str() < name) {
            earlier.write(&mut out);
        }
        header(&mut out, name, family.help(), type_name(family.get_field_type()));
        for metric in family.get_metric() {
            samples(&mut out, name, family.get_field_type(), metric);
        }
    }
    reported.for_each(|one| one.write(&mut out));
    out
}

/// Writes help and type of a family. Writing to a string cannot fail, here and below.
pub(super) fn header(out: &mut String, name: &str, help: &str, of: &str) {
    let _ = writeln!(out, "# HELP {name} {}", escaped(help, false));
    let _ = writeln!(out, "# TYPE {name} {of}");
}

fn type_name(of: MetricType) -> &'static str {
    match of {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}

fn samples(out: &mut String, name: &str, of: MetricType, metric: &Metric) {
    let mut sample = |suffix: &str, extra: Option<(&str, f64)>, value: f64| {
        let own = metric.get_label().iter().map(|pair| (pair.name(), pair.value()));
        self::sample(out, name, suffix, own, extra, value);
    };
    match of {
        MetricType::COUNTER => sample("", None, metric.get_counter().get_value()),
        MetricType::GAUGE => sample("", None, metric.get_gauge().get_value()),
        MetricType::UNTYPED => {}
        MetricType::HISTOGRAM => {
            let histogram = metric.get_histogram();
            let count = histogram.get_sample_count();
            let finite = histogram
                .get_bucket()
                .iter()
                .filter(|bucket| bucket.upper_bound().is_finite());
            let bounds = finite.map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()));
            for (bound, count) in bounds.chain([(f64::INFINITY, count)]) {
                sample("_bucket", Some(("le", bound)), count as f64);
            }
            sample("_sum", None, histogram.get_sample_sum());
            sample("_count", None, count as f64);
        }
        MetricType::SUMMARY => {
            let summary = metric.get_summary();
            for quantile in summary.get_quantile() {
                sample("", Some(("quantile", quantile.quantile())), quantile.value());
            }
            sample("_sum", None, summary.sample_sum());
            sample("_count", None, summary.sample_count() as f64);
        }
    }
}

/// Writes one sample: its family's name with a suffix, the labels of its series and one more, and the value.
pub(super) fn sample<'a>(
    out: &mut String,
    name: &str,
    suffix: &str,
    labels: impl Iterator<Item = (&'a str, &'a str)>,
    extra: Option<(&'a str, f64)>,
    value: f64,
) {
    out.push_str(name);
    out.push_str(suffix);
    let own = labels.map(|(key, text)| (key, escaped(text, true)));
    let extra = extra.map(|(key, number)| (key, go_float(number)));
    let mut separator = '{';
    for (key, text) in own.chain(extra) {
        let _ = write!(out, "{separator}{key}=\"{text}\"");
        separator = ',';
    }
    if separator == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {}", go_float(value));
}

fn escaped(text: &str, quotes: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { text.replace('"', "\\\"") } else { text }
}

/// Go's shortest `g` format: an exponent from 6 up and below -4, plain digits in between.
fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        return value.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::super::{LabelNames, Metrics, catalogue};
    use super::*;

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (-2.5, "-2.5"),
            (0.005, "0.005"),
            (0.0001, "0.0001"),
            (1e-8, "1e-08"),
            (172_800.0, "172800"),
            (1_296_000.0, "1.296e+06"),
            (1_767_225_600.5, "1.7672256005e+09"),
            (f64::INFINITY, "+Inf"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(go_float(value), text);
        }
    }

    #[test]
    fn histograms_and_labels_are_written_in_full() {
        let metrics = Metrics::new(LabelNames::default());
        metrics
            .histogram(&catalogue::CONSOLIDATION_SCORE)
            .observe(&["approved", "a\"b\\c\nd", "balanced"], 0.4);
        let labels = "decision=\"approved\",nodepool=\"a\\\"b\\\\c\\nd\",policy=\"balanced\"";
        let mut expected =
            "# HELP karpenter_consolidation_score Score of consolidation moves under the balanced policy.\n\
                            # TYPE karpenter_consolidation_score histogram\n"
                .to_owned();
        // OPS-164
        for (bound, count) in [
            ("0.1", 0),
            ("0.25", 0),
            ("0.33", 0),
            ("0.5", 1),
            ("1", 1),
            ("2", 1),
            ("5", 1),
            ("10", 1),
            ("+Inf", 1),
        ] {
            expected += &format!("karpenter_consolidation_score_bucket{{{labels},le=\"{bound}\"}} {count}\n");
        }
        expected += &format!("karpenter_consolidation_score_sum{{{labels}}} 0.4\n");
        expected += &format!("karpenter_consolidation_score_count{{{labels}}} 1\n");
        assert_eq!(metrics.encode(), expected);
    }
}
