//! What must not raise the cost of a plan: another order of the input, more types.

use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_scheduler::{Options, Request, solve};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::generate;
use kerf_units::policy::Packing;
use std::collections::BTreeMap;

fn price(plan: &Plan) -> Price {
    plan.launches.iter().filter_map(Launch::price).sum()
}

fn options(packing: Packing) -> Options {
    Options {
        packing,
        // Plans are compared by what they cost as planned.
        forecast_binding: false,
        ..Options::default()
    }
}

/// A few types of random size and price, and one that fits every pod.
fn types(draw: &mut Draw, count: usize) -> Vec<String> {
    let one = |number| {
        let cpu = draw.pick(&[2, 4, 6, 8, 12]);
        let memory = cpu * draw.pick(&[1, 2, 4]);
        let price = f64::from(3 * cpu + memory) / 100.0 + draw.below(8) as f64 / 100.0;
        format!("type t{number} cpu={cpu} mem={memory}Gi price={price}")
    };
    let mut types: Vec<String> = (0..count).map(one).collect();
    types.push("type most cpu=16 mem=64Gi price=1.4".to_owned());
    types
}

fn pods(draw: &mut Draw) -> String {
    let count = 2 + draw.below(7);
    let one = |number| format!("pod p{number} cpu={} mem={}Gi\n", 1 + draw.below(6), 1 + draw.below(12));
    (0..count).map(one).collect()
}

#[test]
fn more_types_never_cost_more_under_cheapest_packing() {
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let (types, pods) = (types(&mut draw, 4), pods(&mut draw));
        let mut before = Price::MAX;
        for more in (0..types.len()).rev() {
            let text = format!("{}\npool default\n{pods}", types[more..].join("\n"));
            let cost = price(&Fixture::read(&text).solve(&options(Packing::Cheapest)));
            assert!(cost <= before, "seed {seed}: {cost} instead of {before} with\n{text}");
            before = cost;
        }
    }
}

#[test]
fn the_order_of_the_input_does_not_matter() {
    // The nodes of a plan: pool, cheapest type and pods, and the pods left over.
    let nodes = |plan: &Plan| {
        let mut nodes: BTreeMap<Vec<String>, usize> = BTreeMap::new();
        for launch in &plan.launches {
            let mut pods: Vec<String> = launch.pods.iter().map(|pod| pod.name.to_string()).collect();
            pods.sort();
            pods.push(format!("{} {:?}", launch.pool, launch.cheapest));
            *nodes.entry(pods).or_default() += 1;
        }
        (nodes, plan.left_over())
    };
    for seed in 0..60 {
        let mut draw = Draw::new(seed);
        let snapshot = Fixture::read(&generate::common(&mut draw)).snapshot;
        let mut shuffled = snapshot.pending.clone();
        draw.shuffle(&mut shuffled);
        for packing in [Packing::Balanced, Packing::Cheapest, Packing::Upstream] {
            let plan = |pods| solve(&Request::new(&snapshot, pods), &options(packing), &|| false);
            let (one, other) = (plan(&snapshot.pending), plan(&shuffled));
            assert_eq!(nodes(&one), nodes(&other), "seed {seed}, {packing:?}");
        }
    }
}

#[test]
fn raising_a_limit_never_costs_more() {
    for seed in 0..200 {
        let mut draw = Draw::new(seed);
        let (types, pods) = (types(&mut draw, 4).join("\n"), pods(&mut draw));
        let resource = draw.pick(&["cpu", "memory"]);
        // A dearer pool without a limit, so that a limit changes where pods go and not whether they run.
        let dear = draw.below(2) == 0;
        let mut before: Option<(usize, Price)> = None;
        for limit in 1..=24 {
            let limit = match resource {
                "cpu" => format!("cpu:{}", 2 * limit),
                _ => format!("memory:{}Gi", 4 * limit),
            };
            let other = if dear {
                "pool other req=node.kubernetes.io/instance-type:In:most\n"
            } else {
                ""
            };
            let text = format!("{types}\npool default limit={limit}\n{other}{pods}");
            let plan = Fixture::read(&text).solve(&options(Packing::Cheapest));
            let now = (plan.left_over(), price(&plan));
            // Where pods are left over, a higher limit may place other ones.
            if let Some((0, cost)) = before {
                assert!(
                    now.0 == 0 && now.1 <= cost,
                    "seed {seed}: {now:?} instead of {before:?} with\n{text}"
                );
            }
            before = Some(now);
        }
    }
}
