//! Unusual input: the reason is reported on exactly the object at fault, all other pods are placed, and time grows at most linearly.

use crate::worlds::eight_core_world;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_scheduler::{Options, Request, solve};
use kerf_testkit::fixture::{Fixture, check, upstream};
use std::sync::Arc;

#[test]
fn a_list_of_ten_thousand_values_is_looked_through() {
    let values: Vec<String> = (0..10_000).map(|n| format!("z{n}")).collect();
    let (most, all) = (values.join(","), format!("{},b", values.join(",")));
    check(
        &eight_core_world(&format!(
            "pod some cpu=2 mem=1Gi select=zone:in:{all}
             pod none cpu=1 mem=1Gi select=zone:in:{most}
             pod not cpu=1 mem=1Gi select=zone:notin:{most}"
        )),
        "default/t b: not some
         - none: no instance type met the scheduling requirements or had a required offering, requirements=karpenter.sh/nodepool In \
         [default], topology.kubernetes.io/zone In [z0 z1 z10 z100 z1000 and 9995 others], \
         resources={\"cpu\":\"1\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

#[test]
fn contradictions_and_bounds_on_text_are_the_fault_of_their_pods() {
    let fixture = Fixture::read(
        "type t cpu=8 mem=16Gi price=0.1
         pool default label=gen=new
         pod twice cpu=1 mem=1Gi select=zone:in:a term=zone:in:b
         pod custom cpu=1 mem=1Gi select=gen:in:new term=gen:in:old
         pod unknown cpu=1 mem=1Gi select=nobody:in:1 term=nobody:in:2
         pod bound cpu=1 mem=1Gi select=gen:gt:3
         pod zone cpu=1 mem=1Gi select=zone:lt:3
         pod absent cpu=1 mem=1Gi select=zone:absent
         pod fine cpu=1 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let refused: Vec<(&str, String)> = plan
        .unschedulable
        .iter()
        .map(|left| (&*left.pod.name, left.refusals[0].cause.code().to_owned()))
        .collect();
    let names: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["absent", "bound", "custom", "twice", "unknown", "zone"]);
    assert!(
        refused
            .iter()
            .all(|(_, code)| matches!(&**code, "Incompatible" | "UndefinedLabel" | "InstanceTypes")),
        "{refused:?}"
    );
    assert_eq!(plan.launches.len(), 1);
}

// SCH-144
#[test]
fn a_pool_that_excludes_every_type_is_named_and_harms_nobody() {
    let fixture = Fixture::read(
        "type t cpu=8 mem=16Gi price=0.1
         pool none weight=9 req=arch:in:riscv
         pool default
         pod p cpu=1 mem=1Gi",
    );
    let plan = fixture.solve(&upstream());
    let empty: Vec<&str> = plan.empty_pools.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        (empty, plan.launches.len(), plan.unschedulable.len()),
        (vec!["none"], 1, 0)
    );
}

// SCH-185: upstream leaves out the volumes and the groups of a pod whose volumes it cannot look up, and places it all the same.
#[test]
fn a_pod_that_cannot_be_understood_takes_no_part() {
    check(
        &eight_core_world(
            "pod odd cpu=1 mem=1Gi label=app=x spread=zone/1/app=x faulty=volume
             pod p cpu=1 mem=1Gi label=app=x",
        ),
        "default/t: p
         ! odd: volume",
    );
}

/// Pods that differ in every label a selector reads, with one million labels together.
fn distinct(count: usize, labels: usize) -> Vec<Arc<Pod>> {
    let one = Fixture::read(&eight_core_world(
        "pod p cpu=0.1 mem=0.1Gi label=app=x spread=zone/1/app=x",
    ));
    let model = &one.snapshot.pending[0];
    let pod = |number: usize| {
        let mut pod = Pod::clone(model);
        pod.name = format!("p{number}").into();
        pod.uid = pod.name.clone();
        let own = (0..labels).map(|label| (format!("k{number}-{label}"), format!("v{number}-{label}")));
        let own: Vec<(String, String)> = own.collect();
        let pairs = own.iter().map(|(key, value)| (&**key, &**value));
        pod.labels = Arc::new(pairs.chain([("app", "x")]).collect());
        Arc::new(pod)
    };
    (0..count).map(pod).collect()
}

#[test]
fn a_million_distinct_labels_are_no_trouble() {
    let fixture = Fixture::read(&eight_core_world(""));
    let pods = distinct(5_000, 200);
    let plan: Plan = solve(&Request::new(&fixture.snapshot, &pods), &Options::default(), &|| false);
    assert!(plan.unschedulable.is_empty());
}

/// Selectors on distinct keys: every pod is a group of its own.
#[test]
fn thousands_of_groups_are_no_trouble() {
    let lines: Vec<String> = (0..1_500)
        .map(|n| format!("pod p{n} cpu=0.1 mem=0.1Gi label=k{n}=v spread=zone/1/k{n}=v apart=host/k{n}=v"))
        .collect();
    let fixture = Fixture::read(&eight_core_world(&lines.join("\n")));
    let plan = solve(&Request::pending(&fixture.snapshot), &Options::default(), &|| false);
    assert!(plan.unschedulable.is_empty());
}
