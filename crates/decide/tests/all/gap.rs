//! What makes plans cost more than their lower bound.

use crate::case::Case;
use kerf_decide::{GapCause, Settings, gap_causes};
use kerf_model::in_flight::InFlight;
use kerf_model::price::Price;
use kerf_scheduler::{Request, cost_bound};
use kerf_testkit::draw::Draw;
use kerf_testkit::fixture::Fixture;
use kerf_testkit::generate;
use kerf_units::policy::{NodeOverheadCost, Packing};
use std::sync::Arc;

/// The plan's price, its lower bound and the causes of the gap.
fn examined(text: &str, packing: Packing) -> (Price, Price, Vec<(GapCause, Price)>) {
    let mut settings = Settings::default();
    settings.solver.packing = packing;
    settings.solver.node_overhead = "0.5".parse::<NodeOverheadCost>().expect("an amount");
    let fixture = Fixture::read(text);
    let plan = fixture.plan(&settings.solver);
    let bound = cost_bound(&Request::pending(&fixture.snapshot), &settings.solver, &plan);
    let case = Case {
        snapshot: Arc::new(fixture.snapshot),
        in_flight: InFlight::default(),
        settings,
    };
    (plan.price(), bound, gap_causes(&case.view(), &plan, bound))
}

#[test]
fn the_gap_of_a_plan_is_divided_among_its_causes() {
    let table = [
        (
            "type t cpu=2 mem=8Gi price=0.1 zones=a,b\npool p\npod w*2 cpu=1 mem=1Gi label=app=x spread=zone/1/app=x",
            Packing::Cheapest,
            "Topology 0.10",
        ),
        (
            "type t cpu=2 mem=8Gi price=0.1\npool p\npod w*3 cpu=1 mem=1Gi",
            Packing::Cheapest,
            "WholeMachines 0.05",
        ),
        // One node in place of four cheaper ones, because each costs half a dollar besides.
        (
            "type t cpu=1 mem=8Gi price=0.1\ntype big cpu=4 mem=32Gi price=0.6\npool p\npod w*4 cpu=1 mem=1Gi",
            Packing::Balanced,
            "Packing 0.20",
        ),
        // The limit of the pool with the cheap type has room for one node.
        (
            "type t cpu=2 mem=8Gi price=0.1 zones=a\ntype dear cpu=2 mem=8Gi price=0.3 zones=a\n\
             pool p req=type:In:t weight=2 limit=cpu:2\npool q req=type:In:dear\npod w*2 cpu=2 mem=1Gi",
            Packing::Cheapest,
            "Limits 0.20",
        ),
    ];
    for (cluster, packing, expected) in table {
        let (_, _, causes) = examined(cluster, packing);
        // The bound is rounded down.
        let causes = causes.iter().filter(|(_, part)| part.per_hour() > 0.001);
        let found: Vec<String> = causes
            .map(|(cause, part)| format!("{cause:?} {:.2}", part.per_hour()))
            .collect();
        assert_eq!(found.join(", "), expected, "{cluster}");
    }
}

#[test]
fn the_parts_of_a_gap_add_up() {
    for seed in 0..60 {
        let text = generate::common(&mut Draw::new(seed));
        let (price, bound, causes) = examined(&text, Packing::Balanced);
        let sum: Price = causes.iter().map(|(_, part)| *part).sum();
        assert_eq!(bound + sum, price.max(bound), "seed {seed}: {causes:?}\n{text}");
        assert!(
            causes.iter().all(|(_, part)| *part > Price::ZERO),
            "seed {seed}: {causes:?}"
        );
    }
}
