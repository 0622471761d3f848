//! Section 11: pools, weights, limits.

use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-136, SCH-137
#[test]
fn pools_that_may_not_launch_are_left_out() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool a
         pool b static weight=10
         pool c notready weight=10
         pool d deleting weight=10
         pool e foreign weight=10
         pod p cpu=1 mem=1Gi",
        "a/t: p",
    );
}

// SCH-141, SCH-142
#[test]
fn the_heaviest_pool_that_accepts_wins_whatever_the_price() {
    check(
        "type cheap cpu=2 mem=4Gi price=0.1
         type dear cpu=4 mem=8Gi price=0.9
         pool a req=type:in:cheap
         pool b req=type:in:dear weight=10
         pool z req=type:in:cheap
         pod p cpu=1.5 mem=1Gi
         pod named cpu=1 mem=1Gi select=pool:in:a
         pod equal cpu=1.2 mem=1Gi select=type:in:cheap",
        "b/dear: p
         z/cheap: equal
         a/cheap: named",
    );
}

// SCH-143, SCH-246
#[test]
fn existing_and_in_flight_machines_come_before_heavier_pools() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool heavy weight=10 limit=nodes:1
         pool light
         node free cpu=2 mem=4Gi
         pod p*3 cpu=1 mem=1Gi",
        "heavy/t: p-2
         free: p-0 p-1",
    );
}

// SCH-144, SCH-140
#[test]
fn a_pool_that_excludes_every_type_is_reported_and_existing_nodes_still_serve() {
    let fixture = Fixture::read(
        "type t cpu=2 mem=4Gi price=0.1
         pool none req=arch:in:s390x
         node free cpu=2 mem=4Gi
         pod a cpu=2 mem=1Gi
         pod b cpu=2 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    assert_eq!(plan.empty_pools, vec![("none".into(), false)]);
    assert_eq!(
        fixture.show(&plan),
        "free: a\n- b: nodepool requirements filtered out all available instance types"
    );
}

// SCH-145, SCH-146
#[test]
fn what_nodes_use_comes_off_the_limit() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=cpu:4
         node old cpu=2 mem=4Gi pool=default
         bound old x cpu=2 mem=1Gi
         pod p*2 cpu=2 mem=1Gi",
        "default/t: p-0
         - p-1: all available instance types exceed limits for nodepool (NodePool=default)",
    );
}

// SCH-151, SCH-148
#[test]
fn limits_serve_part_of_a_batch_and_count_the_largest_candidate() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=cpu:3
         pod p*2 cpu=1.5 mem=1Gi",
        "default/t: p-0
         - p-1: all available instance types exceed limits for nodepool (NodePool=default)",
    );
    check(
        "type small cpu=2 mem=4Gi price=0.1
         type big cpu=4 mem=8Gi price=0.2
         pool default limit=cpu:5
         pod p*2 cpu=2 mem=4Gi",
        "default/big: p-0 p-1",
    );
    check(
        "type small cpu=2 mem=4Gi price=0.1
         type big cpu=4 mem=8Gi price=0.2
         pool default limit=cpu:5
         pod p*2 cpu=2 mem=4Gi label=a=b apart=host/a=b",
        "default/small: p-0
         - p-1: all available instance types exceed limits for nodepool (NodePool=default)",
    );
}

// SCH-147
#[test]
fn a_limit_on_what_types_do_not_have_binds_only_when_it_is_overdrawn() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=nvidia.com/gpu:0
         pod p cpu=1 mem=1Gi",
        "default/t: p",
    );
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=nvidia.com/gpu:0
         node gpu cpu=1 mem=1Gi gpu=1 pool=default
         pod p cpu=2 mem=1Gi",
        "- p: all available instance types exceed limits for nodepool (NodePool=default)",
    );
}

// SCH-146, SCH-149
#[test]
fn each_new_claim_takes_one_node_off_the_limit() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=nodes:2
         pod p*3 cpu=2 mem=1Gi",
        "default/t: p-0
         default/t: p-1
         - p-2: node limits have been exhausted for nodepool (NodePool=default)",
    );
}

// SCH-152, SCH-219, SCH-454
#[test]
fn a_pool_with_a_zero_limit_launches_nothing_but_its_zones_count() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool here req=zone:in:a,b
         pool there req=zone:in:c limit=cpu:0
         pod p*4 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x",
        "here/t a: p-0
         here/t b: p-1
         - p-2: all available instance types exceed limits for nodepool (NodePool=there); unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1, c: 0, podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone In [a b]
         - p-3: all available instance types exceed limits for nodepool (NodePool=there); unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1, c: 0, podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone In [a b]",
    );
}
