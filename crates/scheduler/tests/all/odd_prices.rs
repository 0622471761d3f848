//! Prices, sizes and options that make no sense: every packing gives a valid plan that is no dearer than the greedy's.

use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::sym;
use kerf_model::plan::{Launch, Plan};
use kerf_model::price::Price;
use kerf_scheduler::Options;
use kerf_testkit::fixture::Fixture;
use kerf_units::policy::{NodeOverheadCost, Packing};
use std::sync::Arc;

const WORLD: &str = "
    type small cpu=4 mem=8Gi price=0.2
    type large cpu=16 mem=64Gi price=0.9
    pool default
    pod p*40 cpu=1 mem=2Gi
    pod q*10 cpu=3 mem=1Gi
";

/// How many pods a plan places, and what its nodes cost.
fn figures(plan: &Plan) -> (usize, Price) {
    let launches = plan.launches.iter();
    (
        launches.clone().map(|launch| launch.pods.len()).sum(),
        launches.filter_map(Launch::price).sum(),
    )
}

/// Solves with every packing, node overhead cost and effort. Returns how many pods the greedy places.
fn solve_all(what: &str, fixture: &Fixture) -> usize {
    let mut placed = 0;
    for overhead in [0.0, NodeOverheadCost::PER_HOUR_MAX] {
        for effort in [0, 1, 500, 2_000_000] {
            let solve = |packing| {
                let options = Options {
                    packing,
                    effort,
                    node_overhead: NodeOverheadCost::from_per_hour(overhead).unwrap(),
                    ..Options::default()
                };
                let plan = fixture.try_solve(&options);
                figures(&plan.unwrap_or_else(|why| panic!("{what}, {packing}, effort {effort}: {why}")))
            };
            let greedy = solve(Packing::Upstream);
            placed = greedy.0;
            for packing in [Packing::Cheapest, Packing::Balanced] {
                let better = solve(packing);
                assert!(
                    better.0 > greedy.0 || (better.0 == greedy.0 && better.1 <= greedy.1),
                    "{what}, {packing}, effort {effort}: {better:?} where the greedy has {greedy:?}"
                );
            }
        }
    }
    placed
}

/// The world with changed instance types.
fn with_types(change: impl Fn(&mut Vec<InstanceType>)) -> Fixture {
    let mut fixture = Fixture::read(WORLD);
    let pool = Arc::make_mut(&mut fixture.snapshot.pools[0]);
    let mut types = pool.catalogue.as_ref().unwrap().types.clone();
    change(&mut types);
    pool.catalogue = Ok(Arc::new(Catalogue { types }));
    fixture
}

#[test]
fn prices_of_zero_and_beyond_all_bounds() {
    // Prices below zero, infinite ones and texts that are no numbers do not become prices.
    for text in ["-0.1", "inf", "nan", "1e9"] {
        assert_eq!(Price::from_per_hour(text.parse().unwrap()), None, "{text}");
    }
    let usual = Price::from_per_hour(0.2).unwrap();
    for small in [Price::ZERO, usual, Price::MAX] {
        for large in [Price::ZERO, usual, Price::MAX] {
            let fixture = with_types(|types| {
                for (kind, price) in types.iter_mut().zip([small, large]) {
                    kind.offerings.iter_mut().for_each(|offering| offering.price = price);
                }
            });
            assert_eq!(solve_all(&format!("{small:?} and {large:?}"), &fixture), 50);
        }
    }
}

#[test]
fn types_without_offerings_or_memory_take_no_pods() {
    for (what, placed, change) in [
        ("no price", 50, (|kind| kind.offerings.clear()) as fn(&mut InstanceType)),
        ("nothing available", 50, |kind| {
            kind.offerings
                .iter_mut()
                .for_each(|offering| offering.available = false);
        }),
        ("no memory", 50, |kind| kind.capacity.set(sym::MEMORY, 0)),
        ("memory below zero", 50, |kind| kind.capacity.set(sym::MEMORY, i64::MIN)),
    ] {
        let fixture = with_types(|types| change(&mut types[0]));
        assert_eq!(solve_all(what, &fixture), placed, "{what}: the other type takes all");
        let fixture = with_types(|types| types.iter_mut().for_each(change));
        assert_eq!(solve_all(what, &fixture), 0, "{what}: no type is left");
    }
}

#[test]
fn thousands_of_identical_types_are_as_good_as_one() {
    let one = with_types(|_| {});
    let many = with_types(|types| {
        let small = types[0].clone();
        types.extend((0..2000).map(|_| small.clone()));
    });
    let price = |fixture: &Fixture| figures(&fixture.solve(&Options::default()));
    assert_eq!(price(&many), price(&one));
}

#[test]
fn units_near_the_largest_number_are_no_trouble() {
    let fixture = Fixture::read(
        "type plain cpu=16 mem=64Gi price=0.9
         type card cpu=16 mem=64Gi gpu=4000000000000000000 price=3
         pool default
         pod p*9 cpu=1 mem=1Gi
         pod g*3 cpu=1 mem=1Gi gpu=3000000000000000000",
    );
    assert_eq!(solve_all("huge units", &fixture), 12);
}
