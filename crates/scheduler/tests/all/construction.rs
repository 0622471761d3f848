//! Section 20: the content of a launch.

use kerf_model::intern::sym;
use kerf_testkit::fixture::{Fixture, upstream};

fn requirements(text: &str) -> String {
    let fixture = Fixture::read(text);
    let plan = fixture.solve(&upstream());
    plan.launches[0].requirements.print(&fixture.snapshot.interner)
}

// SCH-314, SCH-317, SCH-318, SCH-112
#[test]
fn final_requirements_keep_what_the_pool_declares_and_drop_what_is_simulation_only() {
    assert_eq!(
        requirements(
            "type t cpu=2 mem=4Gi price=0.1 has=generation=5
             pool default label=team=red req=generation:gt:3 req=arch:in:amd64,arm64
             pod p cpu=1 mem=1Gi"
        ),
        "generation Exists >=4, karpenter.sh/capacity-type In [on-demand], karpenter.sh/nodepool In [default], \
         kubernetes.io/arch In [amd64 arm64], node.kubernetes.io/instance-type In [t], team In [red]"
    );
}

// SCH-317
#[test]
fn a_pod_narrows_the_zone_of_its_claim() {
    assert!(
        requirements(
            "type t cpu=2 mem=4Gi price=0.1
             pool default req=zone:in:a,b
             pod p cpu=1 mem=1Gi select=zone:notin:a"
        )
        .ends_with("topology.kubernetes.io/zone In [b]")
    );
}

// SCH-316, API-106
#[test]
fn the_capacity_type_is_narrowed_to_what_is_offered() {
    assert!(
        requirements(
            "type t cpu=2 mem=4Gi price=0.1 spot=0.05 zones=a
             type u cpu=2 mem=4Gi price=0.1 zones=b
             pool default
             pod p cpu=1 mem=1Gi select=zone:in:b"
        )
        .contains("karpenter.sh/capacity-type In [on-demand]")
    );
}

// SCH-321
#[test]
fn no_launch_is_without_types() {
    let fixture = Fixture::read(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod p cpu=3 mem=1Gi",
    );
    assert!(fixture.solve(&upstream()).launches.is_empty());
}

// SCH-258, SCH-257
#[test]
fn types_only_shrink_as_a_claim_grows() {
    let fixture = Fixture::read(
        "type small cpu=2 mem=4Gi price=0.1
         type big cpu=4 mem=8Gi price=0.2
         pool default
         pod p*2 cpu=1.5 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let types = plan.launches[0].requirements.get(sym::INSTANCE_TYPE).unwrap();
    assert_eq!((plan.launches.len(), types.values.len()), (1, 1));
}
