//! The rows, and the workload each measures.

use crate::clusters;
use crate::measure::{row, timing};
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, Prepared, Request, WhatIf, solve};
use kerf_testkit::workload;
use kerf_units::policy::{Packing, PreferencePolicy};
use std::sync::Arc;

fn greedy() -> Options {
    Options {
        packing: Packing::Upstream,
        ..Options::default()
    }
}

/// Pods per second of upstream, by number of pods of the diverse mix.
const DIVERSE: [(usize, Option<f64>); 8] = [
    (1, None),
    (50, Some(920.0)),
    (500, Some(656.0)),
    (1000, Some(640.0)),
    (2000, None),
    (5000, Some(566.0)),
    (10_000, Some(519.0)),
    (20_000, Some(376.0)),
];
const PREFERENCES: [(&str, PreferencePolicy, f64); 2] = [
    ("Respect", PreferencePolicy::Respect, 90.0),
    ("Ignore", PreferencePolicy::Ignore, 4549.0),
];
/// Sizes at which the cost per pod should stay flat.
const DOUBLING: [usize; 8] = [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000];
const RESOURCES: [usize; 4] = [250, 1000, 5000, 20_000];
const PACKINGS: [&str; 4] = ["greedy", "cheapest", "balanced", "forecast"];

fn cheapest() -> Options {
    Options {
        packing: Packing::Cheapest,
        forecast_binding: false,
        ..Options::default()
    }
}

fn packing(name: &str) -> Options {
    match name {
        "greedy" => greedy(),
        "cheapest" => cheapest(),
        "balanced" => Options {
            forecast_binding: false,
            ..Options::default()
        },
        _ => Options::default(),
    }
}

/// The name of a row, and the function that runs it.
type Row = (String, Box<dyn Fn(&str)>);

fn fresh(name: &str, snapshot: &Snapshot, pods: &[Arc<Pod>], options: &Options, baseline: Option<f64>) {
    let request = Request::new(snapshot, pods);
    let construct = || Prepared::new(snapshot, options);
    let solved = |prepared: &Prepared| prepared.solve(&WhatIf::from(&request), options, &|| false);
    row(
        name,
        pods.len(),
        baseline,
        &mut || solve(&request, options, &|| false),
        Some(&|| timing(pods.len(), &construct, &solved)),
    );
}

fn add(rows: &mut Vec<Row>, name: String, run: impl Fn(&str) + 'static) {
    rows.push((name, Box::new(run)));
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for name in PACKINGS {
        for count in RESOURCES {
            add(&mut rows, format!("resources {count} x 400, {name}"), move |row| {
                fresh(
                    row,
                    &workload::cluster(400),
                    &workload::plain(count),
                    &packing(name),
                    None,
                );
            });
        }
        for (count, baseline) in DIVERSE {
            add(&mut rows, format!("diverse {count} x 400, {name}"), move |row| {
                fresh(
                    row,
                    &workload::cluster(400),
                    &workload::diverse(count),
                    &packing(name),
                    baseline,
                );
            });
        }
        for (kind, pods) in [
            ("resources", workload::plain as fn(usize) -> _),
            ("diverse", workload::diverse),
        ] {
            add(&mut rows, format!("{kind} 5000 x 800, {name}"), move |row| {
                fresh(row, &workload::cluster(800), &pods(5000), &packing(name), None);
            });
        }
        // The largest type of each launch uses up the limits of the reference pool; without limits every pod finds a place.
        add(
            &mut rows,
            format!("diverse 100000 x 800, no limits, {name}"),
            move |row| {
                let cluster = clusters::without_limits(workload::cluster(800));
                fresh(row, &cluster, &workload::diverse(100_000), &packing(name), None);
            },
        );
        add(&mut rows, format!("diverse 100000 x 800, limits, {name}"), move |row| {
            fresh(
                row,
                &workload::cluster(800),
                &workload::diverse(100_000),
                &packing(name),
                None,
            );
        });
        for (policy, preference_policy, baseline) in PREFERENCES {
            add(
                &mut rows,
                format!("preferences 4000 x 400, {policy}, {name}"),
                move |row| {
                    let cluster = workload::cluster(400);
                    let pods = workload::preferences(4000, &cluster.interner);
                    let options = Options {
                        preference_policy,
                        ..packing(name)
                    };
                    fresh(row, &cluster, &pods, &options, Some(baseline));
                },
            );
        }
        for count in DOUBLING {
            add(
                &mut rows,
                format!("doubling {count} x 400, no limits, {name}"),
                move |row| {
                    let cluster = clusters::without_limits(workload::cluster(400));
                    fresh(row, &cluster, &workload::diverse(count), &packing(name), None);
                },
            );
        }
        add(&mut rows, format!("permuted 20000 x 400, {name}"), move |row| {
            let mut pods = workload::diverse(20_000);
            clusters::shuffle(&mut pods, 7);
            fresh(row, &workload::cluster(400), &pods, &packing(name), None);
        });
    }
    for threads in [1, 2] {
        add(
            &mut rows,
            format!("resources 20000 x 400, cheapest, {threads} threads"),
            move |row| {
                let options = Options { threads, ..cheapest() };
                fresh(row, &workload::cluster(400), &workload::plain(20_000), &options, None);
            },
        );
    }
    for (count, nodes, each) in [(1, 2000, 30), (1, 10_000, 30), (20_000, 2000, 30)] {
        let held = nodes * each;
        add(
            &mut rows,
            format!("{count} new on {nodes} nodes, {held} pods, fresh"),
            move |row| {
                let snapshot = clusters::busy(nodes, each);
                fresh(row, &snapshot, &clusters::newcomers(count), &Options::default(), None);
            },
        );
        add(
            &mut rows,
            format!("{count} new on {nodes} nodes, {held} pods, prepared"),
            move |name| {
                let snapshot = clusters::busy(nodes, each);
                let pods = clusters::newcomers(count);
                let options = Options::default();
                let prepared = Prepared::new(&snapshot, &options);
                let mut ask = || {
                    let what_if = WhatIf {
                        pods: &pods,
                        ..WhatIf::default()
                    };
                    prepared.solve(&what_if, &options, &|| false)
                };
                row(name, pods.len(), None, &mut ask, None);
            },
        );
    }
    for nodes in [2000, 10_000] {
        let held = nodes * 30;
        add(
            &mut rows,
            format!("1 new on {nodes} nodes, {held} pods, next snapshot"),
            move |name| {
                let mut snapshot = clusters::busy(nodes, 30);
                let pods = clusters::newcomers(1);
                let options = Options::default();
                let what_if = WhatIf {
                    pods: &pods,
                    ..WhatIf::default()
                };
                let mut prepared = Prepared::new(&snapshot, &options);
                prepared.solve(&what_if, &options, &|| false);
                let mut at = 0;
                let mut ask = || {
                    // One node has changed since the last decision.
                    at = (at + 37) % nodes;
                    snapshot.nodes[at] = Arc::new(kerf_model::node::Node::clone(&snapshot.nodes[at]));
                    prepared = prepared.next(&snapshot, &options);
                    prepared.solve(&what_if, &options, &|| false)
                };
                row(name, pods.len(), None, &mut ask, None);
            },
        );
    }
    add(&mut rows, "what if 1 of 10000 nodes were gone".to_owned(), |name| {
        let snapshot = clusters::busy(10_000, 30);
        // As consolidation asks (DIS-131).
        let options = greedy();
        let prepared = Prepared::new(&snapshot, &options);
        let mut at = 0;
        let mut ask = || {
            at = (at + 37) % snapshot.nodes.len();
            let what_if = WhatIf {
                pods: &snapshot.nodes[at].pods,
                exclude_nodes: &[at],
                ..WhatIf::default()
            };
            prepared.solve(&what_if, &options, &|| false)
        };
        row(name, 30, None, &mut ask, None);
    });
    rows
}

/// The names of all rows.
pub(crate) fn names() -> impl Iterator<Item = String> {
    rows().into_iter().map(|row| row.0)
}

/// Runs one row.
pub(crate) fn run(name: &str) {
    for (known, run) in rows() {
        if known == name {
            run(name);
        }
    }
}
