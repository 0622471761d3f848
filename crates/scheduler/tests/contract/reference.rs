//! Section 29: the reference workloads, as a test of outcome; `benches/diverse.rs` measures them.

use crate::workload::{cluster, diverse, plain, preferences};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_scheduler::{Options, Packing, PreferencePolicy, Request, solve};
use std::sync::Arc;

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

// SCH-435, SCH-436, SCH-437, SCH-440, SCH-444, SCH-449
#[test]
fn every_pod_of_the_diverse_mix_is_placed_on_one_node_per_repelling_pod() {
    for count in [50, 500, 2000] {
        let (nodes, left, _) = outcome(&diverse(count), &upstream());
        assert_eq!((nodes, left), (count / 5, 0), "{count} pods");
    }
}

// SCH-445
#[test]
fn preferences_cost_a_node_per_pod_only_where_they_are_honoured() {
    let interner = cluster(1).interner;
    let pods = preferences(200, &interner);
    assert_eq!(outcome(&pods, &upstream()).1, 0);
    let ignore = Options {
        preference_policy: PreferencePolicy::Ignore,
        ..upstream()
    };
    let (nodes, left, _) = outcome(&pods, &ignore);
    assert!(nodes <= 2 && left == 0, "{nodes} nodes, {left} left");
}

#[test]
fn the_cheapest_packing_beats_the_greedy_on_resources_alone() {
    let pods = plain(1000);
    let (greedy, cheapest) = (outcome(&pods, &upstream()), outcome(&pods, &Options::default()));
    assert_eq!((greedy.1, cheapest.1), (0, 0));
    assert!(cheapest.2 < greedy.2, "{:?} is not below {:?}", cheapest.2, greedy.2);
}
