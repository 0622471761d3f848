//! Pods that share no pool do not affect each other: a plan for all costs no more than the plans for each pool.

use kerf_scheduler::Options;
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::seeds::hold;
use kerf_units::policy::Packing;

/// The lines of a cluster of some pools with their pods. Each pool is tainted, and its pods tolerate and select it. Lines of a pool and of its
/// pods have its name as the beginning of their second word.
fn apart(draw: &mut Draw) -> String {
    let mut lines = Vec::new();
    for number in 0..3 + draw.below(4) {
        let cpu = draw.pick(&[2, 4, 8, 16, 32]);
        let memory = cpu * draw.pick(&[2, 4, 8]);
        let price = f64::from(cpu) * 0.04 + f64::from(memory) * 0.005 + draw.below(300) as f64 * 0.0001;
        lines.push(format!(
            "type t{number} cpu={cpu} mem={memory}Gi pods=20 price={price:.4} zones=a,b"
        ));
    }
    for pool in 0..2 + draw.below(2) {
        let limit = draw.pick(&["", "", "req=zone:in:a"]);
        lines.push(format!("pool p{pool} taint=p{pool}:NoSchedule {limit}"));
        for number in 0..1 + draw.below(5) {
            let cpu = draw.pick(&["0.1", "0.5", "1", "1.5", "3"]);
            let memory = draw.pick(&["0.25Gi", "1Gi", "4Gi"]);
            let rule = match draw.below(6) {
                0 => format!("spread=host/2/app=p{pool}-{number}"),
                1 => format!("apart=host/app=p{pool}-{number}"),
                _ => String::new(),
            };
            let count = 1 + draw.below(12);
            lines.push(format!(
                "pod p{pool}-{number}*{count} cpu={cpu} mem={memory} tol=p{pool} select=pool:in:p{pool} label=app=p{pool}-{number} {rule}"
            ));
        }
    }
    lines.join("\n")
}

/// The cost of a plan as the packing counts it, and the pods it leaves over.
fn cost(text: &str, packing: Packing) -> Result<(f64, usize), String> {
    let options = Options {
        packing,
        // Plans are compared by what they cost as planned.
        forecast_binding: false,
        ..Options::default()
    };
    let plan = Fixture::read(text).try_solve(&options)?;
    let overhead = match packing {
        Packing::Balanced => options.node_overhead.per_hour(),
        Packing::Cheapest | Packing::Upstream => 0.0,
    };
    let prices = plan.launches.iter().filter_map(kerf_model::plan::Launch::price);
    let price: f64 = prices.map(|price| price.per_hour() + overhead).sum();
    Ok((price, plan.unschedulable.len()))
}

/// The lines of a cluster without the other pools and their pods.
fn only(text: &str, pool: &str) -> String {
    let belongs = |line: &&str| {
        let mut words = line.split(' ');
        let is_type = words.next() == Some("type");
        is_type || words.next().is_some_and(|name| name.starts_with(pool))
    };
    text.lines().filter(belongs).collect::<Vec<_>>().join("\n")
}

fn costs_no_more_than_apart(text: &str) -> Result<(), String> {
    let pools = text.lines().filter(|line| line.starts_with("pool "));
    let pools: Vec<&str> = pools.filter_map(|line| line.split(' ').nth(1)).collect();
    // A cluster that is made smaller may lose what keeps its pods apart.
    let is_apart = |line: &str| {
        pools
            .iter()
            .any(|pool| line.contains(&format!(" select=pool:in:{pool} ")))
    };
    if !text.lines().filter(|line| line.starts_with("pod ")).all(is_apart) {
        return Ok(());
    }
    for packing in [Packing::Cheapest, Packing::Balanced, Packing::Upstream] {
        let (together, left) = cost(text, packing)?;
        let mut sum = (0.0, 0);
        for pool in &pools {
            let (own, left) = cost(&only(text, pool), packing)?;
            sum = (sum.0 + own, sum.1 + left);
        }
        // Placing more pods comes before the cost.
        if (left, sum.1) == (0, 0) && together > sum.0 + 1e-9 {
            return Err(format!("{packing}: {together} $/h together, {} apart", sum.0));
        }
    }
    Ok(())
}

#[test]
fn a_plan_for_pools_that_share_no_pods_costs_no_more_than_plans_for_each() {
    hold(5, apart, costs_no_more_than_apart);
}
