//! Section 29: the reference workloads, with expected outcomes. `benches/diverse` measures them.

use kerf_model::intern::sym;
use kerf_model::plan::Plan;
use kerf_model::pod::{Owner, Phase, Pod};
use kerf_model::price::Price;
use kerf_scheduler::{Options, Prepared, Request, WhatIf, solve};
use kerf_testkit::timing::time;
use kerf_testkit::workload::{cluster, diverse, plain, preferences};
use kerf_units::policy::{Packing, PreferencePolicy};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn outcome(pods: &[Arc<Pod>], options: &Options) -> (usize, usize, Price) {
    let snapshot = cluster(400);
    let plan: Plan = solve(&Request::new(&snapshot, pods), options, &|| false);
    let price = plan.launches.iter().filter_map(kerf_model::plan::Launch::price).sum();
    (plan.launches.len(), plan.unschedulable.len(), price)
}

fn upstream() -> Options {
    Options {
        packing: Packing::Upstream,
        ..Options::default()
    }
}

// SCH-439, SCH-440, SCH-444, SCH-449
#[test]
fn every_pod_of_the_diverse_mix_is_placed_on_one_node_per_repelling_pod() {
    for count in [1, 50, 100, 500, 1000, 1500, 2000, 5000, 10_000, 20_000] {
        let pods = diverse(count);
        let (nodes, left, _) = outcome(&pods, &upstream());
        assert_eq!((pods.len(), left), (count, 0), "{count} pods");
        assert_eq!(nodes, (count / 5).max(1), "{count} pods");
    }
}

// SCH-435
#[test]
fn the_reference_cluster_is_empty_and_has_one_pool_almost_without_bounds() {
    let snapshot = cluster(400);
    assert!(snapshot.nodes.is_empty() && snapshot.daemons.is_empty() && snapshot.pending.is_empty());
    let [pool] = snapshot.pools.as_slice() else {
        panic!("one pool")
    };
    let labels: Vec<_> = pool.template_labels.iter().collect();
    assert_eq!(format!("{labels:?}"), r#"[("testing/cluster", "unspecified")]"#);
    assert!(pool.taints.is_empty() && pool.startup_taints.is_empty());
    let text = |id| snapshot.interner.text(id).to_owned();
    let mut keys: Vec<String> = pool.requirements.iter().map(|one| text(one.key)).collect();
    keys.sort();
    assert_eq!(keys, ["karpenter.sh/nodepool", "testing/cluster"], "none of its own");
    let limits = pool.limits.as_ref().unwrap().sorted_by_name(&snapshot.interner);
    assert_eq!(limits, [("cpu", 10_000_000_000), ("memory", 10_000_000 << 30)]);
}

// SCH-436, SCH-437
#[test]
fn the_reference_types_grow_by_one_core_and_have_five_offerings_each() {
    let snapshot = cluster(400);
    let text = |id| snapshot.interner.text(id);
    let types = &snapshot.pools[0].catalogue.as_ref().unwrap().types;
    assert_eq!(types.len(), 400);
    for (i, kind) in types.iter().enumerate() {
        let cores = i as i64 + 1;
        assert_eq!(text(kind.name), format!("fake-it-{i}"));
        let capacity = kind.capacity.sorted_by_name(&snapshot.interner);
        assert_eq!(
            capacity,
            [
                ("cpu", cores * 1000),
                ("memory", (2 * cores) << 30),
                ("pods", 10 * cores)
            ]
        );
        let overhead = kind.overhead.sorted_by_name(&snapshot.interner);
        assert_eq!(overhead, [("cpu", 100), ("memory", 10 << 20)]);
        let values = |key: &str| {
            let one = kind.requirements.get(snapshot.interner.intern(key))?;
            let mut values: Vec<_> = one.values.iter().map(|value| text(*value)).collect();
            values.sort_unstable();
            Some(format!(
                "{}{}",
                if one.complement { "not " } else { "" },
                values.join(" ")
            ))
        };
        let is = |key: &str, expected: &str| assert_eq!(values(key).as_deref(), Some(expected), "{key} of {i}");
        let is_large = cores > 4 && 2 * cores > 8;
        is("kubernetes.io/arch", "amd64");
        is("kubernetes.io/os", "darwin linux windows");
        is("size", if is_large { "large" } else { "small" });
        is("special", if is_large { "optional" } else { "" });
        is("integer", &cores.to_string());
        is("topology.kubernetes.io/zone", "test-zone-1 test-zone-2 test-zone-3");
        is("karpenter.sh/capacity-type", "on-demand spot");
        is("topology.kubernetes.io/region", "");
        let single = |offering: &kerf_model::instance_type::Offering, key| {
            let value = offering
                .requirements
                .get(key)
                .and_then(kerf_model::requirement::Requirement::single);
            text(value.unwrap())
        };
        let offerings: Vec<_> = kind
            .offerings
            .iter()
            .map(|one| (single(one, sym::CAPACITY_TYPE), single(one, sym::ZONE)))
            .collect();
        let on_demand = ["test-zone-1", "test-zone-2", "test-zone-3"].map(|zone| ("on-demand", zone));
        assert_eq!(offerings[..2], [("spot", "test-zone-1"), ("spot", "test-zone-2")]);
        assert_eq!(offerings[2..], on_demand);
        let price = Price::from_per_hour(0.1 * cores as f64 + 0.1 * ((2 * cores) << 30) as f64 / 1e9).unwrap();
        assert!(kind.offerings.iter().all(|one| one.available && one.price == price));
    }
}

// SCH-448
#[test]
fn the_reference_pods_are_plain_but_for_what_their_workload_adds() {
    let interner = cluster(1).interner;
    for pod in diverse(50).into_iter().chain(preferences(50, &interner)) {
        assert_eq!(
            (&*pod.namespace, pod.node_name.as_deref(), pod.phase),
            ("default", None, Phase::Pending)
        );
        assert_eq!(pod.owner, Owner::None);
        assert!(pod.shape.tolerations.is_empty() && pod.volumes.is_empty());
        assert_eq!(
            pod.labels.get("testing/cluster").map(|value| &**value),
            Some("unspecified")
        );
    }
}

// SCH-445
#[test]
fn preferences_cost_a_node_per_pod_only_where_they_are_honoured() {
    let interner = cluster(1).interner;
    let pods = preferences(4000, &interner);
    assert_eq!(pods.len(), 4000);
    let (nodes, left, _) = outcome(&pods, &upstream());
    assert_eq!((nodes, left), (4000, 0));
    let ignore = Options {
        preference_policy: PreferencePolicy::Ignore,
        ..upstream()
    };
    let (nodes, left, _) = outcome(&pods, &ignore);
    assert!(nodes <= 40 && left == 0, "{nodes} nodes, {left} left");
}

#[test]
fn the_cheapest_packing_beats_the_greedy_on_resources_alone() {
    let pods = plain(1000);
    let (greedy, cheapest) = (outcome(&pods, &upstream()), outcome(&pods, &Options::default()));
    assert_eq!((greedy.1, cheapest.1), (0, 0));
    assert!(cheapest.2 < greedy.2, "{:?} is not below {:?}", cheapest.2, greedy.2);
}

// SCH-438, SCH-447, SCH-450, SCH-498: every workload is drawn from a fresh generator, and every solve begins anew.
#[test]
fn the_same_workload_is_drawn_and_solved_alike_each_time() {
    let (first, again) = (diverse(500), diverse(500));
    assert_eq!(first, again);
    let snapshot = cluster(400);
    let launches = || {
        let plan = solve(&Request::new(&snapshot, &first), &upstream(), &|| false);
        plan.launches.iter().map(|launch| launch.pods.len()).collect::<Vec<_>>()
    };
    assert_eq!(launches(), launches());
    assert!(
        first
            .windows(2)
            .all(|pair| pair[0].created < pair[1].created && pair[0].uid != pair[1].uid)
    );
    let amounts = |name| {
        first
            .iter()
            .map(|pod| pod.shape.requests.get(name))
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(amounts(sym::CPU), BTreeSet::from([100, 250, 500, 1000, 1500]));
    let mebibytes: BTreeSet<i64> = amounts(sym::MEMORY).into_iter().map(|bytes| bytes >> 20).collect();
    assert_eq!(mebibytes, BTreeSet::from([100, 256, 512, 1024, 2048, 4096]));
}

// SCH-446
#[test]
fn the_clock_of_the_benchmark_runs_while_it_solves() {
    let (snapshot, pods, options) = (cluster(400), diverse(100), upstream());
    let now = Cell::new(Duration::ZERO);
    let pass = |seconds| now.set(now.get() + Duration::from_secs(seconds));
    let solved = Cell::new(0);
    let construct = || {
        pass(7);
        Prepared::new(&snapshot, &options)
    };
    let solve = |prepared: &Prepared| {
        let pods = if solved.replace(solved.get() + 1) == 0 {
            &pods[..]
        } else {
            &pods[..1]
        };
        let what_if = WhatIf {
            pods,
            ..WhatIf::default()
        };
        pass(if pods.len() > 1 { 4 } else { 1 });
        prepared.solve(&what_if, &options, &|| false)
    };
    let timing = time(100, &|| now.get(), &|iterations, _| iterations < 2, &construct, &solve);
    assert_eq!(
        (timing.construction, timing.solve),
        (Duration::from_secs(7), Duration::from_millis(2500))
    );
    assert!((timing.pods_per_second - 40.0).abs() < 1e-9, "200 pods in 5 seconds");
    // Pods and nodes are those of the first iteration.
    let per_node = &timing.per_node;
    assert_eq!((timing.placed, per_node.nodes), (100, 20));
    assert!((per_node.mean - 5.0).abs() < 1e-9);
    assert!(per_node.least <= 5 && per_node.most >= 5 && per_node.deviation >= 0.0);
    let once = time(
        100,
        &|| now.get(),
        &|_, spent| spent < Duration::from_secs(8),
        &construct,
        &solve,
    );
    assert_eq!(once.solve, Duration::from_secs(1));
}

// SCH-441, SCH-442, SCH-443
#[test]
fn each_kind_of_the_mix_has_its_constraint() {
    let pods = diverse(50);
    let mut selects_itself = 0;
    for (number, pod) in pods.iter().enumerate() {
        let label = |key: &str| pod.labels.get(key).map(ToString::to_string);
        let shape = &pod.shape;
        match number / 10 {
            1 | 2 => {
                let key = if number < 20 { sym::ZONE } else { sym::HOSTNAME };
                let [spread] = shape.spread.as_slice() else {
                    unreachable!("one constraint: {shape:?}")
                };
                assert!(spread.key == key && spread.max_skew == 1 && spread.required && label("my-label").is_some());
                selects_itself += usize::from(spread.selector.matches(&pod.labels));
            }
            3 => {
                let [term] = shape.affinity.as_slice() else {
                    unreachable!("one term: {shape:?}")
                };
                assert!(
                    term.key == sym::ZONE && term.selector.matches(&pod.labels) && label("my-affininity").is_some()
                );
            }
            4 => assert_eq!((shape.anti_affinity.len(), label("app").as_deref()), (1, Some("nginx"))),
            _ => {
                assert!(shape.spread.is_empty() && shape.affinity.is_empty() && shape.anti_affinity.is_empty());
                assert!(label("my-label").is_some());
            }
        }
    }
    // The selector's value is drawn independently of the label's.
    assert!(selects_itself < 10, "{selects_itself} of 20");
}
