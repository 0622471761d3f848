//! Sections 13 and 14: host ports, volumes.

use crate::worlds::eight_core_world;
use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-163, SCH-164, SCH-166
#[test]
fn pods_with_one_host_port_are_kept_apart() {
    for (a, b, together) in [
        ("port=80", "port=80", false),
        ("port=80", "port=81", true),
        ("port=80", "port=80/UDP", true),
        ("port=80@10.0.0.1", "port=80@10.0.0.2", true),
        ("port=80@10.0.0.1", "port=80", false),
        ("port=80@::", "port=80@10.0.0.1", false),
    ] {
        let text = eight_core_world(&format!("pod a cpu=1 mem=1Gi {a}\npod b cpu=1 mem=1Gi {b}"));
        check(
            &text,
            if together {
                "default/t: a b"
            } else {
                "default/t: a\ndefault/t: b"
            },
        );
    }
}

// SCH-165
#[test]
fn ports_of_bound_pods_are_taken() {
    check(
        &eight_core_world(
            "node n cpu=8 mem=16Gi
             bound n x cpu=1 mem=1Gi port=80
             pod a cpu=1 mem=1Gi port=80
             pod b cpu=1 mem=1Gi port=81",
        ),
        "default/t: a
         n: b",
    );
}

// SCH-166, SCH-167
#[test]
fn a_daemon_port_closes_the_types_the_daemon_runs_on() {
    check(
        "type small cpu=2 mem=4Gi price=0.1 has=size=small
         type large cpu=4 mem=8Gi price=0.05 has=size=large
         pool default req=size:exists
         daemon d cpu=0.1 mem=1Gi port=80 select=size:in:large
         pod p cpu=1 mem=1Gi port=80",
        "default/small: p",
    );
    check(
        &eight_core_world("daemon d cpu=0.1 mem=1Gi port=80\npod p cpu=1 mem=1Gi port=80"),
        "- p: no instance type met the scheduling requirements or had enough resources or had a required offering, \
         requirements=karpenter.sh/nodepool In [default], resources={\"cpu\":\"1\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-175, SCH-177
#[test]
fn attach_limits_count_distinct_claims_on_existing_nodes_only() {
    check(
        &eight_core_world(
            "node n cpu=8 mem=16Gi attach=ebs:2
             bound n x cpu=1 mem=1Gi vol=one/ebs
             pod shared cpu=1 mem=1Gi vol=one/ebs
             pod fits cpu=1 mem=1Gi vol=two/ebs
             pod new*3 cpu=1 mem=1Gi vol=three/ebs vol=four/ebs vol=five/ebs
             pod nfs cpu=1 mem=1Gi vol=six",
        ),
        "default/t: new-0 new-1 new-2
         n: nfs fits shared",
    );
}

// SCH-481
#[test]
fn a_node_over_a_limit_takes_no_pod_at_all() {
    check(
        &eight_core_world(
            "node n cpu=8 mem=16Gi attach=ebs:1
             bound n x cpu=1 mem=1Gi vol=one/ebs vol=two/ebs
             pod p cpu=1 mem=1Gi",
        ),
        "default/t: p",
    );
}

// SCH-178, SCH-182, SCH-183
#[test]
fn a_volume_decides_the_zone() {
    check(
        &eight_core_world(
            "node n cpu=1 mem=4Gi zone=a
             pod b cpu=1 mem=1Gi vol=data/ebs/zone:in:b
             pod a cpu=1 mem=1Gi vol=other/ebs/zone:in:a",
        ),
        "default/t b: b
         n: a",
    );
}

// SCH-180, SCH-182
#[test]
fn the_first_combination_of_alternatives_that_works_is_taken() {
    check(
        &eight_core_world("pod p cpu=1 mem=1Gi vol=x/ebs/zone:in:a|zone:in:b vol=y/ebs/zone:in:c|zone:in:b"),
        "default/t b: p",
    );
    check(
        &eight_core_world("pod p cpu=1 mem=1Gi vol=x/ebs/zone:in:a vol=y/ebs/zone:in:b"),
        "- p: incompatible volume requirements, key topology.kubernetes.io/zone, topology.kubernetes.io/zone \
         DoesNotExist not in topology.kubernetes.io/zone Exists",
    );
}

// SCH-179
#[test]
fn a_volume_bound_to_another_host_keeps_the_pod_off_new_nodes() {
    check(
        &eight_core_world(
            "node n cpu=1 mem=4Gi
             pod here cpu=1 mem=1Gi vol=x/ebs/host:in:n
             pod gone cpu=1 mem=1Gi vol=y/ebs/host:in:elsewhere",
        ),
        "n: here
         - gone: incompatible volume requirements, key kubernetes.io/hostname, kubernetes.io/hostname In [elsewhere] \
         not in kubernetes.io/hostname Exists",
    );
}

// SCH-184, SCH-209, SCH-455
#[test]
fn a_volume_does_not_narrow_the_domains_of_a_spread() {
    check(
        &eight_core_world(
            "node n1 cpu=1 mem=1Gi zone=a
             node n2 cpu=1 mem=1Gi zone=b
             node n3 cpu=1 mem=1Gi zone=c
             bound n1 x1 cpu=1 mem=1Gi label=app=x
             bound n2 x2 cpu=1 mem=1Gi label=app=x
             bound n3 x3 cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x spread=zone/1/app=x/min=3 vol=v/ebs/zone:in:a",
        ),
        "default/t a: p",
    );
    check(
        &eight_core_world(
            "node n1 cpu=1 mem=1Gi zone=a
             bound n1 x1 cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x spread=zone/1/app=x vol=v/ebs/zone:in:a",
        ),
        "- p: unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 0, c: 0, \
         podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone In [a]",
    );
}

// SCH-180: the product of many volumes' alternatives is as large as the places they name.
#[test]
fn many_volumes_with_alternatives_are_no_trouble() {
    let volumes: Vec<String> = (0..40)
        .map(|at| format!("vol=v{at}/ebs/zone:in:a|zone:in:b|zone:in:c"))
        .collect();
    let text = format!("pod p cpu=1 mem=1Gi {} vol=last/ebs/zone:in:c", volumes.join(" "));
    check(&eight_core_world(&text), "default/t c: p");
    let keys: Vec<String> = (0..40)
        .map(|at| format!("vol=v{at}/ebs/k{at}:in:x|k{at}:absent"))
        .collect();
    check(
        &eight_core_world(&format!("pod p cpu=1 mem=1Gi {}", keys.join(" "))),
        "default/t: p",
    );
}

#[test]
fn volumes_that_name_too_many_places_are_the_fault_of_their_pod() {
    let volumes: Vec<String> = (0..20)
        .map(|at| format!("vol=v{at}/ebs/zone:notin:x{at}|zone:notin:y{at}"))
        .collect();
    check(
        &eight_core_world(&format!(
            "pod p cpu=1 mem=1Gi {}\npod q cpu=1 mem=1Gi",
            volumes.join(" ")
        )),
        "default/t: q
         - p: too many combinations of volume topologies",
    );
}

// SCH-168: upstream ignores DaemonSets that have no pod on the node yet.
#[test]
fn the_port_of_a_daemon_to_come_is_taken() {
    check(
        &eight_core_world(
            "daemon d cpu=0.1 mem=0.1Gi port=80 select=zone:in:a
             node n cpu=4 mem=8Gi zone=a
             node m cpu=4 mem=8Gi zone=b
             pod p*2 cpu=1 mem=1Gi port=80 select=zone:in:a,b
             pod q cpu=1 mem=1Gi port=81 select=zone:in:a",
        ),
        "m: p-0
         n: q
         - p-1: no instance type met the scheduling requirements or had enough resources or had a required offering, \
         requirements=karpenter.sh/nodepool In [default], topology.kubernetes.io/zone In [a b], \
         resources={\"cpu\":\"1\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-166: the recorded scenario 037, where upstream placed pods that claim the port of a DaemonSet that runs on every node.
#[test]
fn a_port_a_daemon_claims_everywhere_is_to_be_had_nowhere() {
    let clash = "pod clash cpu=0.1 mem=0.1Gi port=9100";
    let fixture = Fixture::read(&format!(
        "node n cpu=8 mem=16Gi
         bound n ports cpu=0.1 mem=0.1Gi port=9100 daemon tol=*
         {clash}"
    ));
    let cluster = &fixture.snapshot;
    let refused = kerf_check::filter::feasible(&cluster.pending[0], &cluster.nodes[0], cluster);
    assert_eq!(refused, Err(vec![kerf_check::filter::FilterReason::Ports]));
    let plan = Fixture::read(&eight_core_world(&format!(
        "daemon ports cpu=0.1 mem=0.1Gi port=9100 tol=*\n{clash}"
    )));
    assert_eq!(plan.solve(&upstream()).unschedulable.len(), 1);
}
