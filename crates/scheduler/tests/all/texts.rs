//! Section 22: error texts.

use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-329, SCH-330, SCH-471
#[test]
fn one_error_per_pool_in_the_order_tried() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool a weight=1 taint=x:NoSchedule
         pool b weight=2 label=team=red
         pod p cpu=1 mem=1Gi select=team:in:blue",
        "- p: incompatible requirements, key team, team In [blue] not in team In [red]; did not tolerate taint (taint=x:NoSchedule)",
    );
}

// SCH-333, SCH-334, SCH-335, SCH-336
#[test]
fn the_filter_says_which_of_three_was_missing() {
    let world = |types: &str, pod: &str| format!("{types}\npool default\npod p {pod}");
    let a = "type a cpu=2 mem=4Gi price=0.1 zones=a";
    let spot = "type s cpu=8 mem=16Gi spot=0.1 zones=b";
    let arm = "type m cpu=8 mem=16Gi price=0.1 zones=c arch=arm64";
    let cases = [
        (world(a, "cpu=9 mem=1Gi"), "no instance type has enough resources"),
        (
            world(a, "cpu=1 mem=1Gi select=arch:in:arm64"),
            "no instance type met all requirements",
        ),
        (
            world(a, "cpu=9 mem=1Gi select=arch:in:arm64"),
            "no instance type met the scheduling requirements or had enough resources",
        ),
        (
            world(a, "cpu=1 mem=1Gi select=zone:in:z"),
            "no instance type met the scheduling requirements or had a required offering",
        ),
        (
            world(a, "cpu=9 mem=1Gi select=zone:in:z"),
            "no instance type met the scheduling requirements or had enough resources or had a required offering",
        ),
        (
            world(
                &format!("{a} offer=spot/a/0.1/off"),
                "cpu=1 mem=1Gi select=zone:in:a select=ct:notin:on-demand",
            ),
            "no instance type has the required offering",
        ),
        (
            world(
                &format!("{a}\n{spot}"),
                "cpu=1 mem=1Gi select=zone:in:a select=ct:in:spot",
            ),
            "no instance type met the scheduling requirements or had a required offering",
        ),
        (
            world(&format!("{a}\n{arm}"), "cpu=4 mem=1Gi select=arch:in:amd64"),
            "no instance type which had enough resources and the required offering met the scheduling requirements",
        ),
    ];
    let more = [
        (
            world(
                &format!("{a} offer=spot/a/0.1/off"),
                "cpu=9 mem=1Gi select=zone:in:a select=ct:notin:on-demand",
            ),
            "no instance type had enough resources or had a required offering",
        ),
        (
            world(
                &format!("{a} offer=spot/a/0.1/off\ntype tiny cpu=0.5 mem=4Gi spot=0.1 zones=a"),
                "cpu=1 mem=1Gi select=zone:in:a select=ct:in:spot",
            ),
            "no instance type which met the scheduling requirements and had enough resources, had a required offering",
        ),
        (
            world(&format!("{a}\n{arm}"), "cpu=4 mem=1Gi select=zone:in:a"),
            "no instance type which met the scheduling requirements and the required offering had the required resources",
        ),
        (
            world(
                &format!("{a} offer=spot/a/0.1/off\n{arm}\ntype tiny cpu=0.5 mem=4Gi spot=0.1 zones=a arch=arm64"),
                "cpu=4 mem=1Gi select=arch:in:amd64 select=zone:in:a select=ct:in:spot",
            ),
            "no instance type met the requirements/resources/offering tuple",
        ),
    ];
    for (text, expected) in cases.into_iter().chain(more) {
        for options in [upstream(), Options::default()] {
            let fixture = Fixture::read(&text);
            let plan = fixture.solve(&options);
            let message = plan.unschedulable[0].message();
            assert_eq!(message.split(", requirements=").next().unwrap(), expected, "{text}");
        }
    }
}

// SCH-335, SCH-337
#[test]
fn a_million_cores_look_like_a_typo() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod p cpu=1000000 mem=1Gi",
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], \
         resources={\"cpu\":\"1000000\",\"memory\":\"1Gi\",\"pods\":\"1\"} (CPU request >= 1 Million, m vs M typo?)",
    );
}

// SCH-337
#[test]
fn partitions_that_differ_print_a_range() {
    check(
        "type x cpu=2 mem=4Gi price=0.1 has=size=small
         type y cpu=2 mem=4Gi price=0.1 has=size=large
         pool default req=size:exists
         daemon a cpu=1 mem=1Gi select=size:in:small
         daemon b cpu=2 mem=1Gi select=size:in:large
         pod p cpu=2 mem=1Gi",
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], size Exists, \
         resources=min={\"cpu\":\"3\",\"memory\":\"2Gi\",\"pods\":\"2\"}, max={\"cpu\":\"4\",\"memory\":\"2Gi\",\"pods\":\"2\"}",
    );
}

// SCH-331
#[test]
fn the_error_is_that_of_the_weakest_reading() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod p cpu=9 mem=1Gi prefer=1/zone:in:mars",
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], resources={\"cpu\":\"9\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

#[test]
fn the_nearest_miss_is_said_in_words() {
    let fixture = Fixture::read(
        "type t cpu=8 mem=4Gi price=0.1
         pool default
         pod p cpu=9 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    assert_eq!(
        plan.unschedulable[0].refusals[0].nearest_miss.as_deref(),
        Some("needs 9 cpu; the largest type the pool allows leaves 8")
    );
}
