//! Section 19: reserved capacity.

use kerf_model::intern::sym;
use kerf_scheduler::{Options, ReservedMode};
use kerf_testkit::fixture::{Fixture, check, check_with, upstream};

fn mode(reserved: ReservedMode) -> Options {
    Options { reserved, ..upstream() }
}

const TWO: &str = "
    type small cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:1
    type medium cpu=4 mem=8Gi price=0.2 offer=reserved/a/0.02/res:r2:1
    pool default
";

const TAKEN: &str =
    "one or more instance types with compatible reserved offerings are available, but could not be reserved (deferred)";

// SCH-303, SCH-293, SCH-298
#[test]
fn a_claim_holds_every_compatible_reservation_and_the_rest_waits() {
    check(
        &format!("{TWO}pod p*3 cpu=2 mem=1Gi label=a=b apart=host/a=b"),
        &format!("default/small: p-0\n- p-1: {TAKEN}\n- p-2: {TAKEN}"),
    );
}

// SCH-296
#[test]
fn under_fallback_the_rest_goes_without() {
    check_with(
        &mode(ReservedMode::Fallback),
        &format!("{TWO}pod p*2 cpu=2 mem=1Gi label=a=b apart=host/a=b"),
        "default/small: p-0\ndefault/small: p-1",
    );
}

// SCH-289
#[test]
fn with_the_gate_off_nothing_is_held() {
    let fixture = Fixture::read(&format!("{TWO}pod p*2 cpu=2 mem=1Gi label=a=b apart=host/a=b"));
    let request = kerf_scheduler::Request::pending(&fixture.snapshot);
    let plan = kerf_scheduler::solve(&request, &mode(ReservedMode::Off), &|| false);
    assert_eq!(plan.launches.len(), 2);
    assert!(plan.launches.iter().all(|launch| launch.reservations.is_empty()));
}

// SCH-300, SCH-302
#[test]
fn a_holding_claim_is_pinned_to_its_reservations() {
    let fixture = Fixture::read(&format!("{TWO}pod p cpu=1 mem=1Gi"));
    let plan = fixture.solve(&upstream());
    let launch = &plan.launches[0];
    let text = |id| fixture.snapshot.interner.text(id);
    assert_eq!(
        launch
            .requirements
            .get(sym::CAPACITY_TYPE)
            .and_then(kerf_model::requirement::Requirement::single),
        Some(sym::RESERVED)
    );
    let ids: Vec<&str> = launch.reservations.iter().map(|id| text(*id)).collect();
    assert_eq!(ids, ["r1", "r2"]);
    assert_eq!(launch.types.len(), 2);
}

// SCH-294
#[test]
fn pods_share_the_reservation_of_their_claim() {
    check(
        &format!("{TWO}pod p*4 cpu=1 mem=1Gi"),
        "default/medium: p-0 p-1 p-2 p-3",
    );
}

// SCH-308, SCH-299
#[test]
fn a_pod_that_excludes_reserved_capacity_goes_at_once() {
    check(
        &format!("{TWO}pod p*2 cpu=2 mem=1Gi label=a=b apart=host/a=b select=ct:in:on-demand"),
        "default/small: p-0\ndefault/small: p-1",
    );
}

// SCH-306
#[test]
fn each_reservation_serves_one_claim_of_the_pass() {
    let text = "
        type t cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:1 offer=reserved/b/0.0/res:r2:2
        pool default
        pod p*4 cpu=1 mem=1Gi label=a=b apart=host/a=b";
    let plan = Fixture::read(text).solve(&upstream());
    let deferred = plan.unschedulable.iter().filter(|left| left.deferred).count();
    assert_eq!((plan.launches.len(), deferred), (2, 2));
}

// SCH-307, SCH-297, SCH-250, SCH-271
#[test]
fn a_lighter_pool_or_a_dropped_preference_is_no_escape() {
    check(
        &format!("{TWO}pool other weight=-5\npod p*2 cpu=4 mem=1Gi label=a=b apart=host/a=b prefer=1/pool:in:default"),
        &format!("default/medium: p-0\n- p-1: {TAKEN}"),
    );
}

// SCH-295, SCH-302
#[test]
fn a_claim_never_loses_all_it_holds() {
    check(
        "type small cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:1
         type big cpu=8 mem=16Gi price=0.2
         pool default
         pod first cpu=1.5 mem=1Gi
         pod second cpu=1.4 mem=1Gi select=type:in:big",
        "default/small: first
         default/big: second",
    );
}

// SCH-290
#[test]
fn the_smallest_capacity_seen_of_a_reservation_counts() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:3
             type u cpu=4 mem=8Gi price=0.2 offer=reserved/a/0.02/res:r1:1
             pool default
             pod p*2 cpu=2 mem=1Gi label=a=b apart=host/a=b",
        &format!("default/t: p-0\n- p-1: {TAKEN}"),
    );
}

// SCH-301
#[test]
fn reserved_capacity_comes_before_cheaper_capacity() {
    let fixture = Fixture::read(
        "type t cpu=2 mem=4Gi price=0.1 spot=0.001 offer=reserved/a/0.05/res:r1:1
         pool default
         pod p cpu=1 mem=1Gi",
    );
    let launch = &fixture.solve(&upstream()).launches[0];
    let capacity = launch.requirements.get(sym::CAPACITY_TYPE);
    assert_eq!(
        capacity.and_then(kerf_model::requirement::Requirement::single),
        Some(sym::RESERVED)
    );
}

// SCH-304
#[test]
fn pools_share_a_reservation() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:1
             pool one
             pool two
             pod p cpu=2 mem=1Gi select=pool:in:one
             pod q cpu=2 mem=1Gi select=pool:in:two",
        &format!("one/t: p\n- q: {TAKEN}"),
    );
}

// SCH-305
#[test]
fn pools_with_reservations_of_their_own_do_not_wait_for_each_other() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 offer=reserved/a/0.01/res:r1:1 offer=reserved/a/0.01/res:r2:1
         pool one req=reservation-id:in:r1
         pool two req=reservation-id:in:r2
         pod p cpu=2 mem=1Gi select=pool:in:one
         pod q cpu=2 mem=1Gi select=pool:in:two",
        "one/t: p
         two/t: q",
    );
}
