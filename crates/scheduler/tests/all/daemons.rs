//! Section 12: DaemonSet overhead.

use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-154, SCH-157
#[test]
fn overhead_is_counted_once_per_node() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         daemon log cpu=1 mem=1Gi
         pod p*4 cpu=1 mem=1Gi",
        "default/t: p-0 p-1 p-2
         default/t: p-3",
    );
}

// SCH-154, SCH-155
#[test]
fn a_daemon_that_cannot_run_there_costs_nothing() {
    for daemon in [
        "daemon d cpu=3 mem=1Gi select=team:in:red",
        "daemon d cpu=3 mem=1Gi select=type:in:nonesuch",
        "daemon d cpu=3 mem=1Gi select=arch:in:arm64",
        "daemon d cpu=3 mem=1Gi term=os:in:windows",
    ] {
        check(
            &format!("type t cpu=4 mem=8Gi price=0.1\npool default\n{daemon}\npod p cpu=4 mem=1Gi"),
            "default/t: p",
        );
    }
}

// SCH-155, SCH-154, SCH-162
#[test]
fn a_daemon_that_can_run_there_does_cost() {
    for (pool, daemon) in [
        ("", "select=team:notin:red"),
        ("label=team=red", "select=team:in:red"),
        ("startup=cni:NoSchedule", ""),
        ("taint=soft:PreferNoSchedule", ""),
        ("", "term=os:in:windows term=os:in:linux"),
        ("", "select=karpenter.sh/registered:in:true"),
    ] {
        let text = format!(
            "type t cpu=4 mem=8Gi price=0.1\ntype big cpu=8 mem=16Gi price=0.2\npool default {pool}\n\
             daemon d cpu=1 mem=1Gi {daemon}\npod p cpu=4 mem=1Gi"
        );
        check(&text, "default/big: p");
    }
}

// SCH-156, SCH-463
#[test]
fn a_daemon_of_large_types_does_not_burden_small_ones() {
    check(
        "type small cpu=2 mem=4Gi price=0.1 has=size=small
         type large cpu=4 mem=8Gi price=0.2 has=size=large
         pool default req=size:exists
         daemon agent cpu=3 mem=1Gi select=size:in:large
         pod a cpu=2 mem=1Gi select=size:in:small
         pod b cpu=1 mem=1Gi select=size:in:large
         pod c cpu=1 mem=1Gi select=size:in:large",
        "default/small: a
         default/large: b
         default/large: c",
    );
}

// SCH-160
#[test]
fn a_daemon_too_large_for_every_type_blocks_the_pool() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         daemon fat cpu=3 mem=1Gi
         pod p cpu=1 mem=1Gi",
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], resources={\"cpu\":\"4\",\"memory\":\"2Gi\",\"pods\":\"2\"}",
    );
}

// SCH-158, SCH-159
#[test]
fn a_node_keeps_room_for_daemons_still_to_come() {
    let world = |bound: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1
             pool default
             node n cpu=4 mem=8Gi
             daemon d cpu=1 mem=1Gi
             {bound}
             pod p*4 cpu=1 mem=1Gi"
        )
    };
    check(&world(""), "default/t: p-3\nn: p-0 p-1 p-2");
    check(
        &world("bound n d-x daemon cpu=1 mem=1Gi"),
        "default/t: p-3\nn: p-0 p-1 p-2",
    );
    check(
        &world("bound n odd daemon cpu=2 mem=1Gi"),
        "default/t: p-2\ndefault/t: p-3\nn: p-0 p-1",
    );
}

// SCH-319, SCH-464
#[test]
fn the_claim_asks_for_its_pods_and_each_daemon_once() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         daemon log cpu=0.5 mem=1Gi
         pod p*2 cpu=1 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let requests = plan.launches[0].requests.sorted_by_name(&fixture.snapshot.interner);
    assert_eq!(requests, [("cpu", 2500), ("memory", 3 << 30), ("pods", 3)]);
}

// SCH-320
#[test]
fn with_several_partitions_the_claim_asks_for_the_least_overhead() {
    let fixture = Fixture::read(
        "type small cpu=2 mem=4Gi price=0.1 has=size=small
         type large cpu=4 mem=8Gi price=0.2 has=size=large
         pool default req=size:exists
         daemon agent cpu=1 mem=1Gi select=size:in:large
         pod p cpu=1 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let requests = plan.launches[0].requests.sorted_by_name(&fixture.snapshot.interner);
    assert_eq!(requests, [("cpu", 1000), ("memory", 1 << 30), ("pods", 1)]);
}

// SCH-320: of each resource by itself, and of those all of them have.
#[test]
fn the_least_overhead_is_that_of_each_resource() {
    let fixture = Fixture::read(
        "type small cpu=8 mem=16Gi price=0.1 has=size=small
         type large cpu=16 mem=32Gi price=0.2 has=size=large gpu=2
         pool default req=size:exists
         daemon lean cpu=2 mem=1Gi select=size:in:small
         daemon fat cpu=1 mem=3Gi gpu=1 select=size:in:large
         pod p cpu=1 mem=1Gi",
    );
    for options in [upstream(), Options::default()] {
        let plan = fixture.solve(&options);
        assert_eq!(plan.launches[0].types.len(), 2, "both may be launched");
        let requests = plan.launches[0].requests.sorted_by_name(&fixture.snapshot.interner);
        assert_eq!(requests, [("cpu", 2000), ("memory", 2 << 30), ("pods", 2)]);
    }
}
