//! Sections 16.1, 16.3 and 16.4: what is checked in which order when a pod is offered to a node, and what placement changes.

use kerf_model::plan::{Refusal, Refuser};
use kerf_scheduler::{Request, explain};
use kerf_testkit::fixture::{Fixture, check, upstream};

/// The reason why the only node refuses the only pending pod.
fn cause(text: &str) -> Option<String> {
    let fixture = Fixture::read(text);
    let request = Request::pending(&fixture.snapshot);
    let refusals = explain(&request, &upstream(), fixture.snapshot.pending.first()?);
    let of_node = |refusal: &&Refusal| matches!(refusal.by, Refuser::Node(_));
    refusals.iter().find(of_node).map(|refusal| refusal.cause.to_string())
}

// SCH-252
#[test]
fn a_node_is_examined_in_order() {
    let mut pod = vec![
        "cpu=9",
        "port=78 port=80@10.0.0.1",
        "vol=v/ebs/zone:in:b",
        "select=team:in:red",
        "spread=nowhere/1/app=x",
    ];
    let of = |pod: &[&str], tolerates: &str, limit: u32| {
        cause(&format!(
            "node n cpu=4 mem=8Gi zone=a taint=team:NoSchedule attach=ebs:{limit}
             bound n x cpu=1 mem=1Gi port=79 port=80 vol=other/ebs
             pod p mem=1Gi {tolerates} {}",
            pod.join(" ")
        ))
        .unwrap_or_default()
    };
    assert!(of(&pod, "", 1).starts_with("did not tolerate taint"));
    assert!(of(&pod, "tol=team", 1).starts_with("would exceed volume limit"));
    // SCH-165
    assert_eq!(
        of(&pod, "tol=team", 2),
        "pod hostport conflicts with existing hostport configuration (existing-hostport-ip=0.0.0.0, existing-hostport-port=80, \
         existing-hostport-protocol=TCP, pod-hostport-ip=10.0.0.1, pod-hostport-port=80, pod-hostport-protocol=TCP)"
    );
    pod[1] = "";
    assert_eq!(of(&pod, "tol=team", 2), "exceeds node resources");
    pod[0] = "cpu=1";
    assert!(of(&pod, "tol=team", 2).contains("label \"team\" does not have known values"));
    pod[3] = "";
    assert!(of(&pod, "tol=team", 2).contains("incompatible volume requirements"));
    pod[2] = "";
    assert!(of(&pod, "tol=team", 2).starts_with("unsatisfiable topology constraint"));
    pod[4] = "";
    assert_eq!(of(&pod, "tol=team", 2), "");
}

// SCH-254
#[test]
fn what_is_placed_on_a_node_is_taken() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node n cpu=4 mem=8Gi attach=ebs:1
         pod large*2 cpu=2.5 mem=1Gi
         pod port*2 cpu=0.2 mem=1Gi port=80
         pod data*2 cpu=0.1 mem=1Gi vol=one/ebs
         pod more cpu=0.1 mem=1Gi vol=two/ebs",
        "default/t: more port-1 large-1
         n: data-0 data-1 port-0 large-0",
    );
}

// SCH-255
#[test]
fn a_new_claim_is_examined_in_order() {
    let cluster = |pod: &str| {
        let text = format!(
            "type t cpu=4 mem=8Gi price=0.1 zones=a,b
             pool default taint=team:NoSchedule
             pod p mem=1Gi label=app=x {pod}"
        );
        Fixture::read(&text).solve(&upstream()).unschedulable[0].message()
    };
    let rest = "cpu=9 select=odd:in:1 vol=v/ebs/zone:in:z near=zone/app=y";
    assert!(cluster(rest).starts_with("did not tolerate taint"));
    assert!(cluster(&format!("{rest} tol=team")).starts_with("incompatible requirements"));
    let rest = "cpu=9 vol=v/ebs/odd:in:z near=zone/app=y tol=team";
    assert!(cluster(rest).starts_with("incompatible volume requirements"));
    assert!(cluster("cpu=9 near=zone/app=y tol=team").starts_with("unsatisfiable topology constraint"));
    assert!(cluster("cpu=9 tol=team").starts_with("no instance type has enough resources"));
}

// SCH-256
#[test]
fn the_placeholder_hostname_is_not_asked_for() {
    let fixture = Fixture::read(
        "type t cpu=4 mem=8Gi price=0.1\npool default\npod p*2 cpu=1 mem=1Gi label=app=x spread=host/1/app=x",
    );
    let plan = fixture.solve(&upstream());
    assert_eq!(plan.launches.len(), 2);
    for launch in &plan.launches {
        assert!(launch.requirements.get(kerf_model::intern::sym::HOSTNAME).is_none());
    }
}

// SCH-263
#[test]
fn a_machine_that_goes_away_before_it_is_up_is_not_used() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node gone cpu=4 mem=8Gi pool=default claim-only deleting
         pod p cpu=1 mem=1Gi",
        "default/t: p",
    );
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         node coming cpu=4 mem=8Gi pool=default claim-only
         pod p cpu=1 mem=1Gi",
        "coming: p",
    );
}

// SCH-244
#[test]
fn the_error_is_that_of_the_latest_attempt() {
    check(
        "node n cpu=2 mem=4Gi zone=a
         pod p cpu=2 mem=1Gi near=zone/app=db
         pod db cpu=1 mem=1Gi label=app=db
         pod ui cpu=1 mem=1Gi near=host/app=db",
        "n: db ui
         - p: nodepool requirements filtered out all available instance types",
    );
    let fixture = Fixture::read(
        "type t cpu=2 mem=4Gi price=0.1
         pool default req=zone:in:b
         node n cpu=2 mem=4Gi zone=a
         pod p cpu=2 mem=1Gi near=zone/app=db
         pod db cpu=1 mem=1Gi label=app=db select=zone:in:a",
    );
    let plan = fixture.solve(&upstream());
    // At the first attempt nothing was in the zone.
    assert!(plan.unschedulable[0].message().contains("counts = a: 1, b: 0"));
}

// SCH-131, SCH-133
#[test]
fn types_are_kept_by_what_they_can_hold_never_by_price() {
    let fixture = Fixture::read(
        "type cheap cpu=4 mem=8Gi price=0.1
         type dear cpu=4 mem=8Gi price=99
         type small cpu=1 mem=8Gi price=0.01
         type port cpu=4 mem=8Gi price=0.1 arch=arm64
         type nothing cpu=4 mem=8Gi offer=on-demand/a/0.1/off
         pool default
         daemon d cpu=0.5 mem=1Gi port=80 select=arch:in:arm64
         pod p cpu=2 mem=1Gi port=80
         pod q cpu=2 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let text = |id| fixture.snapshot.interner.text(id);
    let types = &plan.launches[0].types;
    let names: Vec<&str> = types
        .iter()
        .map(|at| text(plan.launches[0].catalogue.types[*at as usize].name))
        .collect();
    assert_eq!(names, ["cheap", "dear"]);
}
