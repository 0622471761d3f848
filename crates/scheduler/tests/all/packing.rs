//! The ways to pack, and annotations of pools about them.

use crate::worlds::spread_workloads;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_scheduler::{Options, PlanRank, Request, balanced_nodes_max, cost_bound, cost_bound_of_nodes};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_units::policy::{NodeOverheadCost, Packing, PreferencePolicy};
use std::fmt::Write;

/// Two small types cost less per core than a large one.
const TYPES: &str = "
    type small cpu=2 mem=8Gi price=0.10
    type large cpu=64 mem=256Gi price=3.5
";

fn plan(pool: &str, options: &Options) -> Plan {
    let text = format!("{TYPES}\npool default {pool}\npod p*60 cpu=1 mem=4Gi");
    Fixture::read(&text).solve(options)
}

fn nodes(pool: &str, packing: Packing) -> usize {
    let options = Options {
        packing,
        ..Options::default()
    };
    plan(pool, &options).launches.len()
}

#[test]
fn balanced_packing_takes_few_nodes_where_many_save_little() {
    assert_eq!(nodes("", Packing::Upstream), 1);
    assert_eq!(nodes("", Packing::Cheapest), 30);
    assert!(nodes("", Packing::Balanced) <= 4);
}

#[test]
fn annotations_of_a_pool_take_the_place_of_the_options() {
    assert_eq!(nodes("packing=upstream", Packing::Cheapest), 1);
    assert_eq!(nodes("packing=cheapest", Packing::Balanced), 30);
    assert_eq!(nodes("packing=cheapest", Packing::Upstream), 30);
    assert!(nodes("packing=balanced", Packing::Upstream) <= 4);
}

#[test]
fn an_annotation_that_cannot_be_read_means_the_greedy() {
    for pool in ["packing=tight", "overhead=-1", "overhead=1e12", "overhead=nan"] {
        assert_eq!(nodes(pool, Packing::Cheapest), 1, "{pool}");
    }
}

/// Small nodes have the lowest price per core, but 15 of them are too many. One of the largest size in each zone is the greedy's plan.
#[test]
fn balanced_packing_finds_the_few_nodes_that_cost_least() {
    let text = "
        type tiny cpu=2 mem=64Gi price=0.18 zones=a,b,c
        type small cpu=3 mem=64Gi price=0.3 zones=a,b,c
        type medium cpu=7 mem=64Gi price=0.7 zones=a,b,c
        type large cpu=16 mem=64Gi price=1.6 zones=a,b,c
        pool default
        pod p*30 cpu=1 mem=1Gi label=app=p spread=zone/1/app=p
    ";
    let options = Options {
        forecast_binding: false,
        ..Options::default()
    };
    let plan = Fixture::read(text).solve(&options);
    let price = plan.price().per_hour();
    assert_eq!(plan.launches.len(), 6);
    assert!((2.99..=3.01).contains(&price), "{price}");
}

/// Pods that need an architecture, a zone or a capacity type, on families with different ratios of memory to cpu: plans have nodes for what is left of
/// each, more of them than a balanced plan may have. Joined, they cost no more.
#[test]
fn balanced_packing_joins_the_nodes_of_a_plan_that_has_too_many() {
    let mut text = String::new();
    for (family, ratio, per_core) in [("c", 2, 0.0425), ("m", 4, 0.048), ("r", 8, 0.063)] {
        for (arch, factor) in [("amd64", 0.9), ("arm64", 0.8)] {
            for cpu in [2, 4, 8, 16, 32, 48, 64, 96] {
                let (memory, price) = (cpu * ratio, per_core * factor * f64::from(cpu));
                let _ = writeln!(
                    text,
                    "type {family}-{arch}-{cpu} cpu={cpu} mem={memory}Gi price={price:.4} zones=a,b,c arch={arch}"
                );
            }
        }
    }
    text.push_str("pool default\n");
    // Requirements; numbers, cpu and memory of pods that have them.
    let pods = [
        (
            "ct:in:on-demand",
            "3 0.05 256Mi, 40 2 128Mi, 2 0.25 2Gi, 20 1.5 128Mi, 2 0.5 128Mi, 3 1 1Gi, 20 1 1Gi",
        ),
        (
            "arch:in:amd64",
            "2 2 2Gi, 5 2 512Mi, 3 1 128Mi, 2 0.5 64Mi, 40 4 8Gi, 5 1.5 2Gi, 3 0.05 256Mi, 2 2 1Gi, 2 0.5 512Mi, 10 0.05 2Gi, \
             2 0.5 512Mi, 2 1 512Mi, 20 0.5 256Mi, 2 1.5 4Gi, 20 0.1 512Mi, 40 0.05 2Gi, 2 1 2Gi, 10 0.05 8Gi, 2 2 4Gi, \
             10 0.5 512Mi",
        ),
        (
            "zone:in:a",
            "10 0.1 2Gi, 20 0.5 512Mi, 8 0.1 4Gi, 20 1.5 128Mi, 40 0.05 2Gi, 10 4 4Gi, 1 1.5 1Gi, 2 2 64Mi, 20 0.5 512Mi, \
             8 1.5 4Gi, 8 4 4Gi, 10 1.5 512Mi, 1 4 8Gi",
        ),
    ];
    for (name, (select, pods)) in ["x", "y", "z"].iter().zip(pods) {
        for (at, pods) in pods.split(", ").enumerate() {
            let pods: Vec<&str> = pods.split(' ').collect();
            let _ = writeln!(
                text,
                "pod {name}{at}*{} cpu={} mem={} select={select}",
                pods[0], pods[1], pods[2]
            );
        }
    }
    let fixture = Fixture::read(&text);
    let solve = |packing| {
        fixture.solve(&Options {
            packing,
            forecast_binding: false,
            ..Options::default()
        })
    };
    let (greedy, cheapest, balanced) = (
        solve(Packing::Upstream),
        solve(Packing::Cheapest),
        solve(Packing::Balanced),
    );
    let most = balanced_nodes_max(greedy.launches.len());
    assert!(balanced.launches.len() <= most);
    let price = |plan: &Plan| plan.price().per_hour();
    assert!(
        price(&balanced) < 1.001 * price(&cheapest),
        "greedy {}, cheapest {}, balanced {}",
        price(&greedy),
        price(&cheapest),
        price(&balanced)
    );
}

#[test]
fn a_high_node_overhead_cost_leaves_no_more_nodes_than_the_greedy_has() {
    let options = |dollars| Options {
        node_overhead: NodeOverheadCost::from_per_hour(dollars).unwrap(),
        ..Options::default()
    };
    assert_eq!(plan("", &options(100.0)).launches.len(), 1);
    assert_eq!(plan("overhead=100", &options(0.0)).launches.len(), 1);
}

#[test]
fn plans_are_ranked_by_the_packing_that_is_configured() {
    let fixture = |pool: &str| Fixture::read(&format!("{TYPES}\npool default {pool}\npod p*60 cpu=1 mem=4Gi"));
    let with = |packing| Options {
        packing,
        ..Options::default()
    };
    // 30 small nodes for 3 $/h, or one large node for 3.5 $/h: the overhead of 29 nodes is 0.58 $/h.
    let few = fixture("").solve(&with(Packing::Upstream));
    let many = fixture("").solve(&with(Packing::Cheapest));
    for (packing, pool, few_first) in [
        (Packing::Balanced, "", true),
        (Packing::Balanced, "overhead=0", false),
        (Packing::Balanced, "packing=cheapest", false),
        (Packing::Cheapest, "", false),
        (Packing::Upstream, "", false),
        (Packing::Upstream, "packing=balanced", true),
    ] {
        let pools = fixture(pool).snapshot.pools;
        let rank = |plan: &Plan| PlanRank::new(plan, &pools, &with(packing));
        assert_eq!(rank(&few) < rank(&many), few_first, "{packing:?} {pool}");
    }
    let mut worse = few.clone();
    worse.unattempted = few.launches[0].pods[..1].to_vec();
    let options = Options::default();
    let rank = |plan: &Plan| PlanRank::new(plan, &[], &options);
    assert!(rank(&few) < rank(&worse), "pods left over count first");
}

#[test]
fn cheapest_packing_costs_no_more_than_balanced_for_2100_pods() {
    let fixture = Fixture::read(&spread_workloads(42));
    let price = |packing| {
        let options = Options {
            packing,
            forecast_binding: false,
            ..Options::default()
        };
        let plan = fixture.solve(&options);
        assert_eq!(plan.launched_pods(), 2100);
        plan.price()
    };
    let (cheapest, balanced) = (price(Packing::Cheapest), price(Packing::Balanced));
    assert!(
        cheapest <= balanced,
        "{cheapest:?} under cheapest packing, {balanced:?} under balanced"
    );
}

/// The lowest cost of nodes for pods of these sizes, in hundredths of a dollar: every way to share them out is tried.
fn lowest(pods: &[(u32, u32)], types: &[(u32, u32, u32)]) -> u32 {
    fn place(pods: &[(u32, u32)], nodes: &mut Vec<(u32, u32)>, types: &[(u32, u32, u32)]) -> u32 {
        let price = |node: &(u32, u32)| {
            let able = types.iter().filter(|kind| kind.0 >= node.0 && kind.1 >= node.1);
            able.map(|kind| kind.2).min()
        };
        let Some((pod, rest)) = pods.split_first() else {
            return nodes.iter().filter_map(price).sum();
        };
        let mut best = u32::MAX;
        for at in 0..=nodes.len() {
            if at == nodes.len() {
                nodes.push((0, 0));
            }
            let before = nodes[at];
            nodes[at] = (before.0 + pod.0, before.1 + pod.1);
            if price(&nodes[at]).is_some() {
                best = best.min(place(rest, nodes, types));
            }
            nodes[at] = before;
        }
        nodes.pop();
        best
    }
    place(pods, &mut Vec::new(), types)
}

#[test]
fn cheapest_packing_of_a_few_pods_is_the_cheapest_there_is() {
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let types: Vec<(u32, u32, u32)> = (0..4)
            .map(|_| {
                let cpu = draw.pick(&[2, 4, 6, 8, 12, 16]);
                let memory = cpu * draw.pick(&[1, 2, 4]);
                (cpu, memory, 3 * cpu + memory + draw.below(8) as u32)
            })
            .chain([(16, 64, 140)])
            .collect();
        let pods: Vec<(u32, u32)> = (0..2 + draw.below(7))
            .map(|_| (1 + draw.below(6) as u32, 1 + draw.below(12) as u32))
            .collect();
        let mut lines: Vec<String> = Vec::new();
        for (at, (cpu, memory, price)) in types.iter().enumerate() {
            let price = f64::from(*price) / 100.0;
            lines.push(format!("type t{at} cpu={cpu} mem={memory}Gi price={price}"));
        }
        lines.push("pool default".to_owned());
        for (at, (cpu, memory)) in pods.iter().enumerate() {
            lines.push(format!("pod p{at} cpu={cpu} mem={memory}Gi"));
        }
        let options = Options {
            packing: Packing::Cheapest,
            // What is lowest is the cost as planned.
            forecast_binding: false,
            ..Options::default()
        };
        let plan = Fixture::read(&lines.join("\n")).solve(&options);
        let price: f64 = plan
            .launches
            .iter()
            .filter_map(Launch::price)
            .map(Price::per_hour)
            .sum();
        let lowest = f64::from(lowest(&pods, &types)) / 100.0;
        assert!(
            (price - lowest).abs() < 1e-6,
            "seed {seed}: {price}, but {lowest} is enough\n{}",
            lines.join("\n")
        );
    }
}

#[test]
fn the_bound_of_a_workload_that_fills_its_nodes_is_its_cost() {
    let text = "type a cpu=4 mem=8Gi price=0.2\npool default\npod p*8 cpu=2 mem=4Gi";
    let fixture = Fixture::read(text);
    let options = Options::default();
    let plan = fixture.solve(&options);
    let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
    assert!((0.799..=0.8).contains(&bound.per_hour()), "{bound}");
}

#[test]
fn the_bound_knows_that_pods_cannot_be_split() {
    // Two of the pods fit a node, which leaves a fifth of it empty; beside two large ones there is room for one small one.
    let cases = [
        ("pod p*4 cpu=4", 2),
        ("pod p*6 cpu=4\npod small*3 cpu=2", 3),
        ("pod p*3 cpu=6", 3),
    ];
    for (pods, nodes) in cases {
        let fixture = Fixture::read(&format!("type a cpu=10 mem=100Gi price=1\npool default\n{pods}"));
        let options = Options::default();
        let plan = fixture.solve(&options);
        let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
        assert_eq!(plan.price(), Price::from_pico(nodes * 1_000_000_000_000), "{pods}");
        let missing = (plan.price() - bound).per_hour();
        assert!((0.0..0.001).contains(&missing), "{pods}: {bound}");
    }
}

#[test]
fn the_bound_knows_that_pods_of_a_kind_need_a_node_each() {
    for apart in ["port=80", "label=app=p apart=host/app=p"] {
        let text = format!("type a cpu=4 mem=8Gi price=0.2\npool default\npod p*5 cpu=500m {apart}");
        let fixture = Fixture::read(&text);
        let options = Options::default();
        let plan = fixture.solve(&options);
        let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
        assert_eq!(plan.launches.len(), 5, "{apart}");
        let missing = (plan.price() - bound).per_hour();
        assert!((0.0..0.001).contains(&missing), "{apart}: {bound}");
    }
}

#[test]
fn the_bound_knows_how_many_pods_of_a_kind_share_a_node() {
    // Ten pods would fit each node of the cheapest type: spread over hostnames, one or two share it; pods that are near each other need a large one.
    let types = "type a cpu=10 mem=100Gi price=1\ntype b cpu=20 mem=200Gi price=3\npool default\n";
    let cases = [
        ("pod p*6 cpu=1 label=app=p spread=host/1/app=p", 6),
        ("pod p*6 cpu=1 label=app=p spread=host/2/app=p", 3),
        ("pod p*12 cpu=1 label=app=p near=host/app=p", 3),
        // Only preferred, so that one node is enough.
        ("pod p*6 cpu=1 label=app=p spread=host/1/app=p/soft", 1),
    ];
    for (pods, price) in cases {
        let fixture = Fixture::read(&format!("{types}{pods}"));
        let options = Options {
            preference_policy: PreferencePolicy::Ignore,
            ..Options::default()
        };
        let plan = fixture.solve(&options);
        let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
        assert_eq!(plan.price(), Price::from_pico(price * 1_000_000_000_000), "{pods}");
        // Six pods fill 0.6 of a node, and fractions of nodes are allowed.
        let share = if pods.ends_with("soft") { 0.59 } else { 0.999 };
        let least = share * plan.price().per_hour();
        assert!(
            (least..=plan.price().per_hour()).contains(&bound.per_hour()),
            "{pods}: {bound}"
        );
    }
}

#[test]
fn the_bound_knows_how_many_pods_are_in_each_zone() {
    // A third of the pods runs in each zone, whatever it costs there. Without a spread all run in the cheapest.
    let types =
        "type a cpu=4 mem=8Gi price=1 zones=a,b,c offer=spot/a/0.1 offer=spot/b/0.2 offer=spot/c/0.3\npool default\n";
    let cases = [
        ("pod p*12 cpu=2 label=app=p spread=zone/1/app=p", 1.2),
        // With a skew of 3, each zone has at least two of the pods.
        ("pod p*12 cpu=2 label=app=p spread=zone/3/app=p", 0.9),
        ("pod p*12 cpu=2 label=app=p", 0.6),
    ];
    for (pods, least) in cases {
        let fixture = Fixture::read(&format!("{types}{pods}"));
        let options = Options::default();
        let plan = fixture.solve(&options);
        let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
        let most = plan.price().per_hour();
        assert!(
            (least - 0.001..=most).contains(&bound.per_hour()),
            "{pods}: {bound}, {most}"
        );
    }
}

#[test]
fn the_bound_of_a_number_of_nodes_knows_that_few_nodes_are_large_ones() {
    let text = "type small cpu=2 mem=8Gi price=0.1\ntype large cpu=100 mem=800Gi price=6\npool default\npod p*100 cpu=1 mem=1Gi";
    let fixture = Fixture::read(text);
    let options = Options::default();
    let plan = fixture.solve(&options);
    // 50 small nodes hold the pods, or 25.51 small ones and 0.49 of a large one, or a large one.
    for (nodes, least, most) in [(50, 4.99, 5.0), (26, 5.4, 5.49), (1, 5.9, 6.0)] {
        let bound = cost_bound_of_nodes(&Request::pending(&fixture.snapshot), &options, &plan, nodes);
        assert!((least..=most).contains(&bound.per_hour()), "{nodes} nodes: {bound}");
    }
}

/// Pods spread over hostnames beside pods without constraints, with instance types of very different prices: the same nodes are taken apart again and
/// again, and each time other nodes must be tried for their pods.
#[test]
fn plans_for_pods_that_spread_over_hostnames_are_near_the_bound() {
    let (mut gaps, clusters) = (0.0, 6);
    for seed in 0..clusters {
        let mut draw = Draw::new(seed);
        let mut text = String::from("pool default\n");
        for (family, ratio, per_core) in [("c", 2, 0.0425), ("m", 4, 0.048), ("r", 8, 0.063)] {
            for cpu in [2, 4, 8, 16, 32, 48, 64, 96] {
                for generation in 5..8 {
                    let price = per_core * f64::from(cpu) * (0.25 + draw.below(45) as f64 / 100.0);
                    let memory = cpu * ratio;
                    let _ = writeln!(
                        text,
                        "type {family}{generation}-{cpu} cpu={cpu} mem={memory}Gi price={price:.4}"
                    );
                }
            }
        }
        for app in 0..30 {
            let replicas = draw.pick(&[1, 2, 2, 3, 3, 5, 8, 10, 20, 40]);
            let cpu = draw.pick(&["0.05", "0.1", "0.25", "0.5", "1", "1.5", "2", "4"]);
            let memory = draw.pick(&["64Mi", "128Mi", "256Mi", "512Mi", "1Gi", "2Gi", "4Gi", "8Gi"]);
            let spread = match draw.below(3) {
                0 => String::new(),
                skew => format!("spread=host/{skew}/app=w{app}"),
            };
            let _ = writeln!(
                text,
                "pod w{app}*{replicas} cpu={cpu} mem={memory} label=app=w{app} {spread}"
            );
        }
        let fixture = Fixture::read(&text);
        let options = Options {
            forecast_binding: false,
            ..Options::default()
        };
        let plan = fixture.solve(&options);
        let bound = cost_bound(&Request::pending(&fixture.snapshot), &options, &plan);
        gaps += plan.price().per_hour() / bound.per_hour() - 1.0;
    }
    let mean = gaps / clusters as f64;
    assert!(mean < 0.14, "{mean}");
}
