//! The metric catalogue against the contract: by hand for what is easily got wrong, and as a whole with the
//! contract's own list where that is at hand.

use std::collections::BTreeMap;

use kerf_runtime::Metrics;
use kerf_runtime::metrics::catalogue::{self, CATALOGUE};
use kerf_runtime::metrics::{ExtraLabels, MetricDef, MetricKind, buckets, status_conditions};

fn kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram(_) => "histogram",
        MetricKind::Summary => "summary",
    }
}

#[test]
fn names_are_unique_and_everything_registers() {
    let metrics = Metrics::default();
    let mut names = BTreeMap::new();
    let conditions: Vec<_> = ["nodeclaim", "nodepool", "node", "capacitybuffer"]
        .into_iter()
        .map(status_conditions)
        .flat_map(|c| {
            [
                c.transition_seconds,
                c.condition_count,
                c.current_status_seconds,
                c.transitions_total,
                c.termination_current_time_seconds,
                c.termination_duration_seconds,
            ]
        })
        .collect();
    for def in CATALOGUE.iter().copied().chain(&conditions) {
        assert!(
            names.insert(def.name.clone(), def.kind).is_none(),
            "{} is there twice",
            def.name
        );
        let labels = metrics.label_names(def);
        let values: Vec<&str> = labels.iter().map(|_| "x").collect();
        match def.kind {
            MetricKind::Counter => metrics.counter(def).inc(&values),
            MetricKind::Gauge => metrics.gauge(def).set(&values, 1.0),
            MetricKind::Histogram(_) => metrics.histogram(def).observe(&values, 1.0),
            MetricKind::Summary => metrics.summary(def).observe(&values, 1.0),
        }
    }
    let text = metrics.encode();
    for (name, of) in names {
        assert!(text.contains(&format!("# TYPE {name} {}\n", kind(of))), "{name}");
    }
    // OPS-170
    assert!(
        text.contains("operator_nodepool_status_condition_transitions_total{"),
        "{text}"
    );
    // OPS-172
    assert!(
        text.contains("operator_status_condition_count{group=\"x\",kind=\"x\""),
        "{text}"
    );
    assert!(CATALOGUE.iter().all(|def| def.help.ends_with('.')));
}

#[test]
fn buckets_are_the_contracts() {
    let bounds = |def: &MetricDef| match def.kind {
        MetricKind::Histogram(bounds) => bounds.to_vec(),
        _ => Vec::new(),
    };
    let doubling = |from: f64, count: i32| -> Vec<f64> { (0..count).map(|k| from * 2_f64.powi(k)).collect() };
    // OPS-118
    assert_eq!(bounds(&catalogue::NODECLAIMS_TERMINATION_DURATION), doubling(1.0, 12));
    // OPS-119
    assert_eq!(
        bounds(&catalogue::NODECLAIMS_INSTANCE_TERMINATION_DURATION),
        doubling(1.0, 11)
    );
    // OPS-170
    let conditions = status_conditions("nodeclaim");
    assert_eq!(bounds(&conditions.transition_seconds), doubling(0.5, 15));
    assert_eq!(bounds(&conditions.termination_duration_seconds), doubling(0.5, 15));
    // OPS-176
    let reconcile = bounds(&catalogue::RECONCILE_TIME);
    assert_eq!((reconcile.len(), reconcile.last().map(|b| *b as u32)), (40, Some(60)));
    assert_eq!(reconcile, buckets::DURATION[..40]);
    // OPS-125
    let lifetime = bounds(&catalogue::NODES_LIFETIME_DURATION);
    assert_eq!(
        (lifetime.len(), lifetime.last().map(|b| *b as u32)),
        (21, Some(30 * 86_400))
    );
    for (bounds, first, factor, count) in [
        // OPS-177
        (bounds(&catalogue::WORKQUEUE_QUEUE_DURATION), 1e-8, 10.0, 12),
        // OPS-178
        (bounds(&catalogue::CLIENT_REQUEST_DURATION), 0.001, 1.5, 20_usize),
    ] {
        assert_eq!(bounds.len(), count);
        for (k, bound) in (0..).zip(bounds) {
            let exact = first * f64::powi(factor, k);
            assert!((bound - exact).abs() <= exact * 1e-9, "{bound} is not {exact}");
        }
    }
}

#[test]
fn the_catalogue_is_the_list_of_the_specification() {
    let text = include_str!("../../../../docs/behaviour/operations.md");
    let mut listed = 0;
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| **OPS-") && line.contains("| karpenter_"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [_, names, of, labels, ..] = cells.as_slice() else {
            panic!("{row}")
        };
        for name in names.split(", ") {
            let def = CATALOGUE
                .iter()
                .find(|def| def.name == name)
                .unwrap_or_else(|| panic!("{name} is missing"));
            assert_eq!(Some(kind(def.kind)), of.split(' ').next(), "{name}");
            let stated: Vec<&str> = labels
                .split(", ")
                .filter(|label| *label != "none" && !label.starts_with('+'))
                .collect();
            assert_eq!(def.labels, stated, "{name}");
            let per_node = labels.contains("well-known");
            assert_eq!(def.extra == ExtraLabels::WellKnown, per_node, "{name}");
            listed += 1;
        }
    }
    let ours = CATALOGUE
        .iter()
        .filter(|def| def.name.starts_with("karpenter_"))
        .count();
    assert_eq!(
        ours, listed,
        "the catalogue has metrics that docs/behaviour/operations.md does not list"
    );
}
