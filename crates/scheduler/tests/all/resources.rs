//! Sections 9 and 10: resources, instance types, offerings.

use kerf_testkit::fixture::check;

// SCH-261, SCH-132
#[test]
fn the_cheapest_sufficient_type_is_launched_whatever_its_size() {
    check(
        "type small cpu=2 mem=4Gi price=0.3
         type big cpu=8 mem=32Gi price=0.2
         pool default
         pod p cpu=1 mem=1Gi",
        "default/big: p",
    );
}

// SCH-125, SCH-260
#[test]
fn pod_slots_fill_up_like_any_resource() {
    check(
        "type small cpu=8 mem=32Gi pods=2 price=0.3
         pool default
         pod p*3 cpu=0.1 mem=1Gi",
        "default/small: p-0 p-1
         default/small: p-2",
    );
}

// SCH-122, SCH-480
#[test]
fn an_overcommitted_node_takes_nothing() {
    check(
        "type small cpu=2 mem=4Gi price=0.1
         pool default
         node full cpu=4 mem=4Gi
         bound full fat cpu=1 mem=5Gi
         pod p cpu=0.1 mem=0Gi",
        "default/small: p",
    );
}

// SCH-122
#[test]
fn a_resource_nobody_has_fits_only_as_zero() {
    check(
        "type small cpu=2 mem=4Gi price=0.1
         type gpu cpu=2 mem=4Gi gpu=1 price=0.9
         pool default
         pod none cpu=0.1 mem=1Gi gpu=0
         pod one cpu=0.1 mem=1Gi gpu=1
         pod two cpu=0.1 mem=1Gi gpu=2",
        "default/gpu: one none
         - two: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], \
         resources={\"cpu\":\"100m\",\"memory\":\"1Gi\",\"nvidia.com/gpu\":\"2\",\"pods\":\"1\"}",
    );
}

// SCH-124
#[test]
fn overhead_and_huge_pages_come_off_the_capacity() {
    check(
        "type a cpu=2 mem=4Gi price=0.1 over=cpu=100m
         type b cpu=2 mem=4Gi huge=1Gi price=0.05
         type c cpu=2 mem=4Gi price=0.2
         pool default
         pod cpu cpu=2 mem=1Gi
         pod mem cpu=1 mem=3.5Gi",
        "default/b: cpu
         default/a: mem",
    );
}

// SCH-127, SCH-128, SCH-129
#[test]
fn an_offering_with_more_capacity_counts_only_where_it_is_available() {
    let types = |flag: &str| {
        format!(
            "type t cpu=2 mem=4Gi offer=on-demand/a/0.1 offer=on-demand/b/0.2/{flag}
             pool default
             pod p cpu=3 mem=1Gi"
        )
    };
    check(&types("more:4"), "default/t: p");
    check(
        &format!("{} select=zone:in:a", types("more:4")),
        "- p: no instance type met the requirements/resources/offering tuple, \
         requirements=karpenter.sh/nodepool In [default], topology.kubernetes.io/zone In [a], resources={\"cpu\":\"3\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-135
#[test]
fn a_type_without_available_offerings_never_survives() {
    check(
        "type gone cpu=8 mem=16Gi offer=on-demand/a/0.01/off
         type here cpu=8 mem=16Gi price=0.5
         pool default
         pod p cpu=1 mem=1Gi",
        "default/here: p",
    );
}

// SCH-130
#[test]
fn labels_types_do_not_know_exclude_none() {
    check(
        "type t cpu=8 mem=16Gi price=0.5
         pool default req=team:in:red
         pod p cpu=1 mem=1Gi select=team:in:red",
        "default/t: p",
    );
}

// SCH-132
#[test]
fn the_price_of_an_offering_out_of_reach_does_not_matter() {
    check(
        "type a cpu=8 mem=16Gi price=0.5 spot=0.01
         type b cpu=8 mem=16Gi price=0.4 spot=0.3
         pool default req=ct:in:on-demand
         pod p cpu=1 mem=1Gi",
        "default/b: p",
    );
}

// SCH-123, SCH-478
#[test]
fn amounts_are_compared_exactly() {
    check(
        "type t cpu=1 mem=1Gi price=0.5
         pool default
         pod p*10 cpu=0.1 mem=0.1Gi
         pod q cpu=0.001 mem=0Gi",
        "default/t: p-0 p-1 p-2 p-3 p-4 p-5 p-6 p-7 p-8 p-9
         default/t: q",
    );
}
