//! The mirror at 5,000 nodes and 150,000 pods: `cargo bench -p kerf-state --bench mirror`.
//!
//! `KERF_BENCH_ONCE=1` prints one table of single measurements, with the aims of each, and stops. The pods are those of thirty workloads,
//! thirty to a node; decoding them from JSON is not measured, folding them is. Memory is the process's resident set, from Linux.

#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    clippy::disallowed_macros,
    reason = "a bench reads clocks and files, and prints"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion};
use jiff::Timestamp;
use kerf_model::intern::Interner;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_scheduler::{Options, Prepared, WhatIf};
use kerf_state::lean::{LeanNode, LeanPod};
use kerf_state::{Kind, Mirror, MirrorOptions};
use serde_json::{Value, json};

const NODES: usize = 5_000;
const PODS_PER_NODE: usize = 30;
const PODS: usize = NODES * PODS_PER_NODE;
const EVENTS: usize = 100;

fn now() -> Timestamp {
    Timestamp::from_second(1_767_225_600).expect("a time")
}

fn read<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("an object of that kind")
}

fn node(index: usize) -> LeanNode {
    let name = format!("node-{index:05}");
    let zone = ["a", "b", "c"][index % 3];
    read(json!({
        "metadata": {
            "name": name, "uid": format!("00000000-0000-4000-8000-{index:012}"), "resourceVersion": "1",
            "creationTimestamp": "2025-12-31T00:00:00Z",
            "labels": {
                "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "karpenter.sh/nodepool": "default",
                "node.kubernetes.io/instance-type": "m5.4xlarge", "karpenter.sh/capacity-type": "spot",
                "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true",
                "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
            },
        },
        "spec": {"providerID": format!("cloud:///{zone}/i-{index:017x}")},
        "status": {
            "capacity": {"cpu": "16", "memory": "64Gi", "pods": "234"},
            "allocatable": {"cpu": "15890m", "memory": "60Gi", "pods": "234"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }))
}

/// Pods of a workload differ in name, uid and place only, as those of a Deployment do.
fn replica(index: usize, version: usize) -> LeanPod {
    let app = format!("app-{:02}", index % 30);
    read(json!({
        "metadata": {
            "name": format!("{app}-6d4cf56db6-{index:06}"), "namespace": format!("team-{}", index % 7),
            "uid": format!("00000000-0000-4000-9000-{index:012}"), "resourceVersion": version.to_string(),
            "creationTimestamp": "2025-12-31T00:00:00Z",
            "labels": {"app": app, "tier": "front", "pod-template-hash": "6d4cf56db6"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true}],
        },
        "spec": {
            "nodeName": format!("node-{:05}", index / PODS_PER_NODE),
            "containers": [{"name": "main", "resources": {"requests": {"cpu": format!("{}m", 100 + 10 * (index % 30)), "memory": "512Mi"}}}],
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            ],
        },
        "status": {"phase": "Running", "startTime": "2025-12-31T00:00:00Z"},
    }))
}

/// A mirror of the nodes, and of no pods yet.
fn nodes_only() -> Mirror {
    let mut mirror = Mirror::new(Arc::new(Interner::default()), &MirrorOptions::default());
    mirror.reset((0..NODES).map(node).collect());
    mirror
}

fn full() -> Mirror {
    let mut mirror = nodes_only();
    for index in 0..PODS {
        mirror.apply(replica(index, 1));
    }
    mirror
}

/// Pods on as many nodes, each deleted or changed.
fn events() -> Vec<(LeanPod, bool)> {
    let step = PODS / EVENTS;
    (0..EVENTS)
        .map(|index| (replica(index * step, 2), index % 2 == 0))
        .collect()
}

fn fold(mirror: &mut Mirror, events: Vec<(LeanPod, bool)>) {
    for (mut pod, gone) in events {
        if gone {
            mirror.delete(&pod);
        } else {
            pod.status.phase = "Succeeded".into();
            mirror.apply(pod);
        }
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * 4096
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = work();
    (result, began.elapsed())
}

fn line(what: &str, value: &str, aim: &str) {
    println!("{what:<62} {value:>14}   {aim}");
}

fn millis(took: Duration) -> String {
    format!("{:.3} ms", took.as_secs_f64() * 1e3)
}

fn table() {
    println!("{NODES} nodes, {PODS} pods");
    let mut mirror = nodes_only();
    let before = resident();
    let mut folding = Duration::ZERO;
    for index in 0..PODS {
        let pod = replica(index, 1);
        folding += timed(|| mirror.apply(pod)).1;
    }
    let each = resident().saturating_sub(before) / PODS;
    assert_eq!(mirror.count(Kind::Pod), PODS);
    line("memory per pod", &format!("{each} B"), "< 1024 B");
    line(
        "folding a pod in",
        &format!("{:.0} ns", folding.as_nanos() as f64 / PODS as f64),
        "",
    );
    let (first, took) = timed(|| mirror.snapshot(now()));
    assert_eq!(first.nodes.len(), NODES);
    line("first snapshot", &millis(took), "< 50 ms");
    let (same, took) = timed(|| mirror.snapshot(now()));
    assert!(Arc::ptr_eq(&first, &same));
    line("snapshot when nothing changed", &millis(took), "");
    let events = events();
    let (_, folded) = timed(|| fold(&mut mirror, events));
    let (next, took) = timed(|| mirror.snapshot(now()));
    assert_eq!(
        next.nodes.iter().filter(|node| node.pods.len() < PODS_PER_NODE).count(),
        EVENTS
    );
    line(&format!("folding {EVENTS} events"), &millis(folded), "");
    line(
        &format!("snapshot after {EVENTS} events on as many nodes"),
        &millis(took),
        "< 1 ms",
    );
    drop((first, same));
    let options = Options::default();
    let (prepared, took) = timed(|| Prepared::new(&next, &options));
    line("preparing what-if questions, once per snapshot", &millis(took), "");
    let forks = 100;
    let (_, took) = timed(|| {
        for index in 0..forks {
            let pods = &next.nodes[index].pods;
            let removed = [index];
            black_box(ask(&prepared, &removed, &pods[..1], &options));
        }
    });
    line(
        "what if one node and one pod",
        &millis(took / u32::try_from(forks).unwrap_or(1)),
        "fork < 0.1 ms",
    );
}

fn ask(prepared: &Prepared, removed: &[usize], pods: &[Arc<Pod>], options: &Options) -> Plan {
    let question = WhatIf {
        pods,
        exclude_nodes: removed,
        ..WhatIf::default()
    };
    prepared.solve(&question, options, &|| false)
}

fn main() {
    table();
    if std::env::var_os("KERF_BENCH_ONCE").is_some() {
        return;
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    criterion.bench_function("first snapshot", |bencher| {
        bencher.iter_batched_ref(
            full,
            |mirror| black_box(mirror.snapshot(now())),
            BatchSize::PerIteration,
        );
    });
    let mut mirror = full();
    mirror.snapshot(now());
    let mut version = 2;
    criterion.bench_function("100 changed pods and a snapshot", |bencher| {
        let changed = || {
            version += 1;
            let step = PODS / EVENTS;
            let pods: Vec<LeanPod> = (0..EVENTS).map(|index| replica(index * step, version)).collect();
            pods
        };
        bencher.iter_batched(
            changed,
            |pods| {
                for pod in pods {
                    mirror.apply(pod);
                }
                black_box(mirror.snapshot(now()))
            },
            BatchSize::SmallInput,
        );
    });
    criterion.final_summary();
}
