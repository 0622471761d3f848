//! Section 11.4 with tight limits: what the greedy refuses, and what the default packing places.

use kerf_model::intern::sym;
use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check};

/// A family of sizes; two cores cost 0.1 dollars per hour.
const FAMILY: &str = "
    type t2 cpu=2 mem=4Gi price=0.1
    type t4 cpu=4 mem=8Gi price=0.2
    type t8 cpu=8 mem=16Gi price=0.4
    type t16 cpu=16 mem=32Gi price=0.8
    type t32 cpu=32 mem=64Gi price=1.6
    type t96 cpu=96 mem=192Gi price=4.8
    type t192 cpu=192 mem=384Gi price=9.6
";

/// Eight pods that each need their own node.
const APART: &str = "pod p*8 cpu=2 mem=1Gi label=a=b apart=host/a=b";

fn machines(count: usize, of: &str) -> String {
    let lines: Vec<String> = (0..count).map(|at| format!("default/{of}: p-{at}")).collect();
    lines.join("\n")
}

#[track_caller]
fn shown(text: &str) -> String {
    let fixture = Fixture::read(text);
    fixture.show(&fixture.solve(&Options::default()))
}

// SCH-148, SCH-151
#[test]
fn upstream_packing_counts_the_largest_candidates_and_refuses_the_rest() {
    let refused = |at| format!("- p-{at}: all available instance types exceed limits for nodepool (NodePool=default)");
    let refused: Vec<String> = (2..8).map(refused).collect();
    check(
        &format!("{FAMILY} pool default limit=cpu:128\n{APART}"),
        &format!("{}\n{}", machines(2, "t2"), refused.join("\n")),
    );
}

#[test]
fn one_pass_places_what_small_types_can_hold_within_the_limit() {
    for limit in [
        "limit=cpu:128",
        "limit=cpu:40",
        "limit=cpu:16",
        "limit=memory:32Gi limit=cpu:1000",
    ] {
        let text = format!("{FAMILY} pool default {limit}\n{APART}");
        assert_eq!(shown(&text), machines(8, "t2"), "under {limit}");
    }
}

#[test]
fn a_limit_that_is_too_small_for_all_is_used_up() {
    let fixture = Fixture::read(&format!("{FAMILY} pool default limit=cpu:11\n{APART}"));
    let plan = fixture.solve(&Options::default());
    assert_eq!((plan.launches.len(), plan.unschedulable.len()), (5, 3));
    let message = plan.unschedulable[0].message();
    assert_eq!(
        message,
        "all available instance types exceed limits for nodepool (NodePool=default)"
    );
}

#[test]
fn launches_keep_a_choice_where_the_limit_leaves_one() {
    let fixture = Fixture::read(&format!("{FAMILY} pool default limit=cpu:128\n{APART}"));
    let plan = fixture.solve(&Options::default());
    assert!(plan.launches.iter().all(|launch| launch.types.len() >= 2));
    let free = Fixture::read(&format!("{FAMILY} pool default\n{APART}"));
    let plan = free.solve(&Options::default());
    assert!(plan.launches.iter().all(|launch| launch.types.len() == 7));
}

#[test]
fn what_shares_a_machine_still_does() {
    let text = format!("{FAMILY} pool default limit=cpu:40\npod p*16 cpu=1 mem=1Gi");
    let fixture = Fixture::read(&text);
    let plan = fixture.solve(&Options::default());
    assert!(plan.unschedulable.is_empty());
    let cost: i64 = plan
        .launches
        .iter()
        .filter_map(kerf_model::plan::Launch::price)
        .map(kerf_model::price::Price::pico)
        .sum();
    assert_eq!(cost, 800_000_000_000);
}

#[test]
fn more_pods_are_worth_a_dearer_type_that_takes_less_of_the_limit() {
    let types = "type small cpu=2 mem=4Gi price=0.2\ntype large cpu=8 mem=16Gi price=0.1\n";
    let pods = "pod p*4 cpu=2 mem=1Gi label=a=b apart=host/a=b";
    let under = |limit: u32| shown(&format!("{types}pool default limit=cpu:{limit}\n{pods}"));
    assert_eq!(under(8), machines(4, "small"));
    assert_eq!(under(32), machines(4, "large"));
}

// SCH-275
#[test]
fn launches_give_up_no_type_that_min_values_needs() {
    let text = format!("{FAMILY} pool default limit=cpu:32 req=type:exists::min=3\n{APART}");
    let fixture = Fixture::read(&text);
    let plan = fixture.solve(&Options::default());
    assert_eq!(plan.launches.len(), 4);
    let least = |launch: &kerf_model::plan::Launch| launch.requirements.get(sym::INSTANCE_TYPE)?.min_values;
    assert!(
        plan.launches
            .iter()
            .all(|launch| launch.types.len() == 3 && least(launch) == Some(3))
    );
}

// SCH-295
#[test]
fn launches_keep_a_type_of_the_reservations_they_hold() {
    let text = "
        type t2 cpu=2 mem=4Gi price=0.1
        type t4 cpu=4 mem=8Gi price=0.2 offer=reserved/a/0.01/res:r1:1
        type t32 cpu=32 mem=64Gi price=1.6 offer=reserved/a/0.02/res:r2:1
        pool default limit=cpu:36
        pod p*2 cpu=2 mem=1Gi label=a=b apart=host/a=b select=ct:in:reserved";
    let fixture = Fixture::read(text);
    let plan = fixture.solve(&Options::default());
    let held: Vec<usize> = plan.launches.iter().map(|launch| launch.reservations.len()).collect();
    assert_eq!(held, [1, 1]);
}

// Beyond SCH-148: machines are opened at the size that makes most of the limit.
#[test]
fn growth_does_not_waste_the_limit() {
    // All can be placed: 192 cpu hold 147 of these pods, so 40 such machines hold 5,880 and one more the last 120: 7,872 cpu.
    let cases = [
        (6000, "limit=cpu:7900"),
        (600, "limit=cpu:790"),
        (60, "limit=cpu:80"),
        (40, "limit=cpu:54"),
    ];
    for (pods, limit) in cases {
        let text = format!("{FAMILY} pool default {limit}\npod p*{pods} cpu=1.3 mem=1Gi");
        let plan = Fixture::read(&text).solve(&Options::default());
        assert_eq!(plan.unschedulable.len(), 0, "{pods} pods under {limit}");
    }
}

#[test]
fn where_not_all_fit_as_many_as_possible_do() {
    let text = format!("{FAMILY} pool default limit=cpu:16\npod large*2 cpu=16 mem=1Gi\npod small*8 cpu=2 mem=1Gi");
    let plan = Fixture::read(&text).solve(&Options::default());
    let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(placed, 8);
}

#[test]
fn few_nodes_are_made_large() {
    let text = format!("{FAMILY} pool default limit=nodes:2\npod large*2 cpu=90 mem=1Gi\npod small*20 cpu=8 mem=1Gi");
    let plan = Fixture::read(&text).solve(&Options::default());
    assert!(plan.unschedulable.is_empty(), "{} left over", plan.unschedulable.len());
}

/// The largest amount of cpu, in cores, that the launches of a pool may become together.
fn largest_cores(plan: &kerf_model::plan::Plan, pool: &str) -> i64 {
    let largest = |launch: &kerf_model::plan::Launch| {
        let types = launch.types.iter().map(|at| &launch.catalogue.types[*at as usize]);
        types.map(|kind| kind.capacity.get(sym::CPU)).max().unwrap_or_default()
    };
    let of_pool = plan.launches.iter().filter(|launch| &*launch.pool == pool);
    of_pool.map(largest).sum::<i64>() / 1000
}

// Deviation at SCH-148
#[test]
fn a_claim_uses_of_a_limit_what_it_is_planned_as_not_the_largest_type_it_could_become() {
    let text = "
        type g1 cpu=4 mem=16Gi gpu=1 price=0.5
        type g4 cpu=48 mem=192Gi gpu=4 price=3.9
        type g8 cpu=96 mem=384Gi gpu=8 price=7.8
        pool default limit=nvidia.com/gpu:16
        pod p*4 cpu=3 mem=12Gi gpu=1";
    assert_eq!(shown(text), machines(4, "g1"));
}

// Deviation at SCH-148
#[test]
fn a_heavier_pool_is_used_up_to_its_limit() {
    let family: String = FAMILY
        .lines()
        .map(|line| match line.split_once("price=") {
            Some((_, price)) => format!("{line} spot={}\n", price.parse::<f64>().unwrap() / 3.0),
            None => format!("{line}\n"),
        })
        .collect();
    let text = format!(
        "{family}
        pool spot weight=10 req=ct:in:spot limit=cpu:64
        pool other req=ct:in:on-demand
        pod p*60 cpu=1.5 mem=2Gi"
    );
    let fixture = Fixture::read(&text);
    let plan = fixture.solve(&Options::default());
    assert!(plan.unschedulable.is_empty());
    let on_spot = plan.launches.iter().filter(|launch| &*launch.pool == "spot");
    let on_spot: usize = on_spot.map(|launch| launch.pods.len()).sum();
    assert!(on_spot >= 40, "{on_spot} of 42 pods\n{}", fixture.show(&plan));
    assert!(largest_cores(&plan, "spot") <= 64);
}
