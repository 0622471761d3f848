//! Section 16: the order of pods and of candidates.

use kerf_model::pod::Phase;
use kerf_scheduler::{Options, Request, solve};
use kerf_testkit::fixture::{Fixture, check, upstream};
use std::sync::Arc;

// SCH-241
#[test]
fn larger_pods_go_first_then_older_ones() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=nodes:2
         pod young cpu=1 mem=1Gi
         pod wide cpu=1 mem=4Gi
         pod big cpu=2 mem=1Gi
         pod last cpu=1 mem=1Gi",
        "default/t: big
         default/t: wide
         - last: node limits have been exhausted for nodepool (NodePool=default)
         - young: node limits have been exhausted for nodepool (NodePool=default)",
    );
}

// SCH-247, SCH-461
#[test]
fn initialised_nodes_come_first_then_names() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         node a cpu=1 mem=4Gi pool=default booting
         node c cpu=1 mem=4Gi pool=default
         node b cpu=1 mem=4Gi
         pod p*3 cpu=1 mem=1Gi",
        "a: p-2
         b: p-0
         c: p-1",
    );
}

// SCH-248, SCH-460
#[test]
fn the_claim_with_the_fewest_pods_is_joined() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         pod a*2 cpu=2 mem=1Gi label=app=a apart=host/app=a
         pod b*2 cpu=1 mem=1Gi",
        "default/t: a-0 b-0
         default/t: a-1 b-1",
    );
}

// SCH-249
#[test]
fn what_existing_nodes_refused_is_not_reported() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         node n cpu=1 mem=4Gi taint=x:NoSchedule
         pod p cpu=4 mem=1Gi",
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], resources={\"cpu\":\"4\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-251
#[test]
fn a_settling_node_takes_no_pod_from_a_healthy_one() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node healthy cpu=1 mem=4Gi
         node going cpu=1 mem=4Gi deleting
         node calm cpu=4 mem=4Gi settling
         bound healthy moved cpu=1 mem=1Gi moving
         bound going pushed cpu=1 mem=1Gi moving
         pod pending cpu=1 mem=1Gi",
        "default/t: moved
         calm: pushed pending",
    );
}

// SCH-251: the phase decides which pods may be planned there, not whether the pod is bound.
#[test]
fn a_settling_node_takes_a_bound_pod_that_has_not_started() {
    let mut fixture = Fixture::read(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node healthy cpu=2 mem=4Gi
         node calm cpu=4 mem=4Gi settling
         bound healthy running cpu=1 mem=1Gi moving
         bound healthy starting cpu=1 mem=1Gi moving",
    );
    let pods = fixture.snapshot.pending.iter_mut();
    for pod in pods.filter(|pod| &*pod.name == "starting") {
        Arc::make_mut(pod).phase = Phase::Pending;
    }
    let plan = fixture.show(&fixture.plan(&upstream()));
    assert_eq!(plan, "default/t: running\ncalm: starting");
}

// SCH-262, SCH-264, SCH-265
#[test]
fn capacity_that_is_launched_or_unmanaged_is_used_before_new_capacity() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node coming cpu=1 mem=4Gi pool=default claim-only booting
         node foreign cpu=1 mem=4Gi
         pod p*2 cpu=1 mem=1Gi
         pod zonal cpu=1 mem=1Gi select=zone:in:a",
        "default/t a: zonal
         coming: p-1
         foreign: p-0",
    );
}

// SCH-243, SCH-245
#[test]
fn a_pod_whose_partner_comes_later_in_the_queue_is_tried_again() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         pod follower cpu=2 mem=1Gi near=host/app=leader
         pod leader cpu=1 mem=1Gi label=app=leader",
        "default/t: leader follower",
    );
}

// SCH-047
#[test]
fn at_the_deadline_what_was_not_tried_is_left_without_a_verdict() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         pod p*1000 cpu=1 mem=1Gi",
    );
    let plan = solve(&Request::pending(&fixture.snapshot), &upstream(), &|| true);
    let placed: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
    assert_eq!(plan.unschedulable.len(), 0);
    assert_eq!(placed + plan.unattempted.len(), 1000);
    assert!(!plan.unattempted.is_empty());
}

// SCH-014, SCH-024
#[test]
fn a_faulty_pod_is_ignored_and_blocks_nobody() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         pod bad cpu=1 mem=1Gi faulty=nonsense
         pod good cpu=1 mem=1Gi",
        "default/t: good
         ! bad: nonsense",
    );
}

// SCH-459
#[test]
fn the_plan_is_the_same_at_any_number_of_threads() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=8Gi price=0.1
         type u cpu=8 mem=8Gi price=0.15
         pool default
         pod a*40 cpu=1 mem=1Gi label=app=a spread=zone/1/app=a
         pod b*40 cpu=0.5 mem=2Gi label=app=b apart=host/app=b",
    );
    let plans: Vec<String> = [1, 2, 8]
        .into_iter()
        .map(|threads| {
            fixture.show(&fixture.solve(&Options {
                threads,
                ..Options::default()
            }))
        })
        .collect();
    assert_eq!(plans[0], plans[1]);
    assert_eq!(plans[0], plans[2]);
}
