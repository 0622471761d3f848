//! Sections 15.7 and 15.8: pod affinity and anti-affinity.

use crate::worlds::two_core_world;
use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-228, SCH-234
#[test]
fn a_pod_joins_the_zone_of_the_pods_it_likes() {
    check(
        &two_core_world(
            "node n cpu=1 mem=4Gi zone=b
             bound n db cpu=1 mem=1Gi label=app=db
             pod web cpu=1 mem=1Gi near=zone/app=db",
        ),
        "default/t b: web",
    );
}

// SCH-229, SCH-230
#[test]
fn the_first_of_a_group_settles_one_zone() {
    check(
        &two_core_world("pod p*3 cpu=2 mem=1Gi label=app=x near=zone/app=x"),
        "default/t a: p-0
         default/t a: p-1
         default/t a: p-2",
    );
}

// SCH-229
#[test]
fn an_in_flight_machine_is_preferred_to_start_a_group() {
    check(
        &two_core_world(
            "pod big cpu=1.5 mem=1Gi select=zone:in:c
             pod p cpu=0.5 mem=1Gi label=app=x near=zone/app=x",
        ),
        "default/t c: p big",
    );
}

// SCH-231, SCH-232
#[test]
fn self_affinity_on_hostname_uses_one_node_only() {
    check(
        &two_core_world("pod p*3 cpu=1 mem=1Gi label=app=x near=host/app=x"),
        "default/t: p-0 p-1
         - p-2: unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname (counts = hostname-placeholder-0001: 2, \
         podDomains = kubernetes.io/hostname Exists, nodeDomains = kubernetes.io/hostname Exists",
    );
    check(
        &two_core_world(
            "node n cpu=1 mem=4Gi
             bound n x cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x near=host/app=x",
        ),
        "- p: unsatisfiable topology constraint for pod affinity, key=kubernetes.io/hostname (counts = n: 1, \
         podDomains = kubernetes.io/hostname Exists, nodeDomains = kubernetes.io/hostname Exists",
    );
}

// SCH-229, SCH-232: upstream also starts a group where the others are out of the pod's reach; kube-scheduler would leave the pod pending.
#[test]
fn no_second_place_is_started_while_a_pod_of_the_group_is_anywhere() {
    check(
        &two_core_world(
            "node n cpu=4 mem=4Gi zone=a
             bound n x cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x near=zone/app=x select=zone:in:c",
        ),
        "- p: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = a: 1, b: 0, c: 0, \
         podDomains = topology.kubernetes.io/zone In [c], nodeDomains = topology.kubernetes.io/zone In [c]",
    );
    check(
        &two_core_world(
            "node n cpu=4 mem=4Gi zone=a
             bound n x cpu=1 mem=1Gi label=app=x
             pod p cpu=1 mem=1Gi label=app=x near=zone/app=x term=zone:in:c term=zone:in:a",
        ),
        "n: p",
    );
}

// SCH-228, SCH-229: kube-scheduler counts the pods that all required terms select, for each of them.
#[test]
fn one_pod_must_be_what_all_terms_ask_for() {
    let both = "near=zone/app=db near=host/tier=hot";
    let cluster = |labels: [&str; 2]| {
        let [a, b] = labels;
        two_core_world(&format!(
            "node m cpu=4 mem=4Gi zone=a
             node n cpu=4 mem=4Gi zone=b
             bound m x cpu=1 mem=1Gi {a}
             bound n y cpu=1 mem=1Gi {b}
             pod web cpu=1 mem=1Gi {both}"
        ))
    };
    check(&cluster(["label=app=db", "label=app=db label=tier=hot"]), "n: web");
    let apart = Fixture::read(&cluster(["label=app=db", "label=tier=hot"])).solve(&upstream());
    assert_eq!(apart.unschedulable.len(), 1);
    // Two pods on one node that each meet one term are no pod that meets both.
    let together = Fixture::read(&two_core_world(&format!(
        "node m cpu=4 mem=4Gi zone=a
         bound m x cpu=1 mem=1Gi label=app=db
         bound m y cpu=1 mem=1Gi label=tier=hot
         pod web cpu=1 mem=1Gi {both}"
    )));
    assert_eq!(together.solve(&upstream()).unschedulable.len(), 1);
}

// SCH-229
#[test]
fn a_pod_all_of_whose_terms_select_it_starts_a_group() {
    check(
        &two_core_world("pod p*2 cpu=1 mem=1Gi label=app=x label=tier=hot near=zone/app=x near=host/tier=hot"),
        "default/t a: p-0 p-1",
    );
    let half = Fixture::read(&two_core_world(
        "pod p cpu=1 mem=1Gi label=app=x near=zone/app=x near=host/tier=hot",
    ));
    assert_eq!(half.solve(&upstream()).unschedulable.len(), 1);
}

// SCH-233
#[test]
fn affinity_to_nobody_is_unschedulable() {
    check(
        &two_core_world("pod web cpu=1 mem=1Gi near=zone/app=db"),
        "- web: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone (counts = a: 0, b: 0, c: 0, \
         podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone Exists",
    );
}

// SCH-233, SCH-242
#[test]
fn chains_resolve_within_one_pass_whatever_the_order() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         pod ui cpu=1 mem=1Gi label=app=ui near=host/app=cache
         pod cache cpu=1 mem=1Gi label=app=cache near=host/app=web
         pod web cpu=1 mem=1Gi label=app=web near=host/app=db
         pod db cpu=1 mem=1Gi label=app=db",
        "default/t: db ui web cache",
    );
    // Beyond upstream, which waits for the zone of `db` to be settled by its launch.
    check(
        &two_core_world(
            "pod web cpu=2 mem=1Gi label=app=web near=zone/app=db
             pod db cpu=2 mem=1Gi label=app=db",
        ),
        "default/t a: db
         default/t a: web",
    );
}

// SCH-235, SCH-236
#[test]
fn anti_affinity_on_hostname_needs_one_machine_each() {
    check(
        &two_core_world(
            "node n cpu=2 mem=4Gi
             bound n x cpu=0.1 mem=1Gi label=app=x
             pod p*2 cpu=0.1 mem=1Gi label=app=x apart=host/app=x",
        ),
        "default/t: p-0
         default/t: p-1",
    );
}

// SCH-237
#[test]
fn a_pod_that_repels_keeps_others_away_though_they_have_no_rule() {
    check(
        &two_core_world(
            "node n cpu=2 mem=4Gi
             bound n lonely cpu=0.1 mem=1Gi apart=host/app=web
             pod web cpu=0.1 mem=1Gi label=app=web
             pod other cpu=0.1 mem=1Gi label=app=other",
        ),
        "default/t: web
         n: other",
    );
    check(
        &two_core_world(
            "pod lonely cpu=0.5 mem=1Gi apart=host/app=web
             pod web cpu=0.1 mem=1Gi label=app=web",
        ),
        "default/t: lonely
         default/t: web",
    );
}

// SCH-237, SCH-240
#[test]
fn a_preferred_repulsion_keeps_nobody_else_away() {
    check(
        &two_core_world(
            "node n cpu=2 mem=4Gi
             bound n lonely cpu=0.1 mem=1Gi apart~10=host/app=web
             pod web cpu=0.1 mem=1Gi label=app=web",
        ),
        "n: web",
    );
}

// SCH-483
#[test]
fn a_terminating_pod_still_repels() {
    check(
        &two_core_world(
            "node n cpu=2 mem=4Gi zone=a
             bound n lonely cpu=0.1 mem=1Gi apart=zone/app=web terminating
             pod web cpu=0.1 mem=1Gi label=app=web select=zone:in:a,b",
        ),
        "default/t b: web",
    );
}

// SCH-238: upstream places one per pass, because a zone that is not settled blocks all; here each settles one.
#[test]
fn mutually_exclusive_zonal_pods_settle_one_zone_each_in_one_pass() {
    let fixture = Fixture::read(&two_core_world("pod p*4 cpu=1 mem=1Gi label=app=x apart=zone/app=x"));
    let plan = fixture.solve(&upstream());
    assert_eq!(
        fixture.show(&plan),
        "default/t a: p-0\ndefault/t b: p-1\ndefault/t c: p-2\n- p-3: unsatisfiable topology constraint for pod anti-affinity, \
         key=topology.kubernetes.io/zone (counts = a: 1, b: 1, c: 1, podDomains = topology.kubernetes.io/zone Exists, \
         nodeDomains = topology.kubernetes.io/zone Exists"
    );
}

// SCH-239
#[test]
fn anti_affinity_works_over_any_label() {
    check(
        "type x cpu=8 mem=4Gi price=0.1
         type y cpu=8 mem=4Gi price=0.2 arch=arm64
         pool default
         pod p*2 cpu=1 mem=1Gi label=app=x apart=arch/app=x",
        "default/x: p-0
         default/y: p-1",
    );
}

// SCH-193
#[test]
fn namespaces_decide_whom_a_term_sees() {
    check(
        &two_core_world(
            "node n cpu=4 mem=4Gi zone=b
             bound n db cpu=1 mem=1Gi label=app=db ns=data
             pod seen cpu=2 mem=1Gi near=zone/app=db@data
             pod unseen cpu=2 mem=1Gi apart=zone/app=db select=zone:in:b",
        ),
        "default/t b: unseen
         n: seen",
    );
}
