//! Section 15.6: topology spread.

use crate::worlds::two_core_world;
use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check, upstream};

// SCH-212, SCH-213, SCH-214, SCH-453
#[test]
fn pods_go_to_the_emptiest_zone_and_pin_it() {
    check(
        &two_core_world("pod p*5 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x"),
        "default/t a: p-0
         default/t b: p-1
         default/t c: p-2
         default/t a: p-3
         default/t b: p-4",
    );
}

// SCH-222
#[test]
fn eleven_pods_over_three_zones_are_four_four_three() {
    let fixture = Fixture::read(&two_core_world(
        "pod p*11 cpu=1 mem=1Gi label=app=x spread=zone/1/app=x/min=3",
    ));
    let plan = fixture.solve(&upstream());
    let mut by_zone = std::collections::BTreeMap::new();
    for launch in &plan.launches {
        let zone = launch
            .requirements
            .get(kerf_model::intern::sym::ZONE)
            .and_then(kerf_model::requirement::Requirement::single)
            .unwrap();
        *by_zone.entry(fixture.snapshot.interner.text(zone)).or_insert(0) += launch.pods.len();
    }
    let mut counts: Vec<usize> = by_zone.values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [3, 4, 4]);
}

// SCH-212, SCH-222
#[test]
fn with_fewer_domains_than_asked_for_the_minimum_is_zero() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default
         pod p*3 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x/min=3",
        "default/t a: p-0
         default/t b: p-1
         - p-2: unsatisfiable topology constraint for topology spread, key=topology.kubernetes.io/zone (counts = a: 1, b: 1, \
         podDomains = topology.kubernetes.io/zone Exists, nodeDomains = topology.kubernetes.io/zone Exists",
    );
}

// SCH-187, SCH-475
#[test]
fn constraints_that_differ_in_min_domains_do_not_share_it() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default
         pod p*2 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x/min=3
         pod q cpu=1 mem=1Gi label=app=x spread=zone/1/app=x",
        "default/t a: p-0
         default/t b: p-1
         default/t a: q",
    );
}

// SCH-215, SCH-457
#[test]
fn over_hostnames_the_minimum_is_always_zero() {
    check(
        &two_core_world(
            "node n cpu=8 mem=8Gi
             bound n x cpu=1 mem=1Gi label=app=x
             pod p*2 cpu=0.1 mem=1Gi label=app=x spread=host/1/app=x",
        ),
        "default/t: p-0
         default/t: p-1",
    );
    check(
        &two_core_world("pod p*4 cpu=0.1 mem=1Gi label=app=x spread=host/2/app=x"),
        "default/t: p-0 p-1
         default/t: p-2 p-3",
    );
}

// SCH-216, SCH-456
#[test]
fn a_pod_that_does_not_select_itself_is_still_bound_by_the_others() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         node n cpu=4 mem=8Gi zone=a
         bound n y1 cpu=1 mem=1Gi label=app=y
         bound n y2 cpu=1 mem=1Gi label=app=y
         pod p*3 cpu=1 mem=1Gi label=app=x spread=zone/1/app=y",
        "default/t b: p-0 p-1 p-2",
    );
}

// SCH-217
#[test]
fn an_unknown_key_stops_only_its_own_pods() {
    check(
        &two_core_world("pod p cpu=1 mem=1Gi label=app=x spread=rack/1/app=x\npod q cpu=1 mem=1Gi"),
        "default/t: q
         - p: unsatisfiable topology constraint for topology spread, key=rack (counts = , podDomains = rack Exists, nodeDomains = rack Exists",
    );
}

// SCH-218
#[test]
fn a_soft_constraint_holds_while_it_can() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default limit=nodes:2
         pod p*2 cpu=1 mem=1Gi label=app=x spread=zone/1/app=x/soft",
        "default/t a: p-0
         default/t b: p-1",
    );
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default limit=nodes:1
         pod p*2 cpu=1 mem=1Gi label=app=x spread=zone/1/app=x/soft",
        "default/t a: p-0 p-1",
    );
}

// SCH-219
#[test]
fn what_the_pool_cannot_reach_still_holds_the_minimum() {
    let text = "type t cpu=2 mem=4Gi price=0.1
         pool default req=zone:in:a,b
         node n cpu=1 mem=1Gi zone=c
         bound n x cpu=1 mem=1Gi label=app=x
         pod p*6 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x";
    let plan = Fixture::read(text).solve(&upstream());
    assert_eq!((plan.launches.len(), plan.unschedulable.len()), (4, 2));
}

// SCH-220
#[test]
fn a_hard_constraint_on_the_key_narrows_the_minimum() {
    let text = "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod a*5 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x select=zone:in:a
         pod b*10 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x select=zone:in:b";
    let plan = Fixture::read(text).solve(&upstream());
    assert_eq!((plan.launches.len(), plan.unschedulable.len()), (15, 0));
}

// SCH-221, SCH-201
#[test]
fn an_uneven_start_is_levelled() {
    check(
        &two_core_world(
            "node n cpu=4 mem=4Gi zone=a
             bound n x1 cpu=1 mem=1Gi label=app=x
             bound n x2 cpu=1 mem=1Gi label=app=x
             pod p*3 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x",
        ),
        "default/t b: p-0
         default/t c: p-1
         default/t b: p-2",
    );
}

// SCH-202, SCH-203
#[test]
fn pods_that_are_gone_or_moving_or_elsewhere_do_not_count() {
    check(
        &two_core_world(
            "node n cpu=4 mem=8Gi zone=a
             bound n x1 cpu=1 mem=1Gi label=app=x terminating
             bound n x2 cpu=1 mem=1Gi label=app=x ns=other
             node bare cpu=1 mem=8Gi
             bound bare x3 cpu=1 mem=1Gi label=app=x
             pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x",
        ),
        "n: p",
    );
    check(
        &two_core_world(
            "node old cpu=4 mem=8Gi zone=a deleting
             bound old x1 cpu=1 mem=1Gi label=app=x moving
             pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x select=zone:in:a,b",
        ),
        "default/t a: p
         default/t b: x1",
    );
}

// SCH-204, SCH-032
#[test]
fn pods_that_stay_on_a_deleting_node_count_but_the_node_takes_none() {
    check(
        &two_core_world(
            "node old cpu=4 mem=8Gi zone=a deleting
             bound old x1 cpu=1 mem=1Gi label=app=x
             pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x select=zone:in:a,b",
        ),
        "default/t b: p",
    );
}

// SCH-223
#[test]
fn spreading_over_a_custom_label_follows_its_values() {
    let text = "type t cpu=2 mem=4Gi price=0.1
         pool one req=slot:in:1
         pool four req=slot:in:2,3,4,5
         pod p*20 cpu=2 mem=1Gi label=app=x spread=slot/1/app=x";
    let plan = Fixture::read(text).solve(&upstream());
    let count = |pool: &str| plan.launches.iter().filter(|launch| &*launch.pool == pool).count();
    assert_eq!((count("one"), count("four")), (4, 16));
}

// SCH-224, SCH-198, SCH-197
#[test]
fn domains_behind_taints_count_unless_the_pod_honours_taints() {
    let world = |flag: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1
             pool open req=zone:in:a
             pool closed req=zone:in:b taint=closed:NoSchedule
             pod p*3 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x{flag}"
        )
    };
    let plan = Fixture::read(&world("")).solve(&upstream());
    assert_eq!((plan.launches.len(), plan.unschedulable.len()), (1, 2));
    let plan = Fixture::read(&world("/taints")).solve(&upstream());
    assert_eq!((plan.launches.len(), plan.unschedulable.len()), (3, 0));
}

// SCH-225, SCH-205
#[test]
fn node_affinity_policy_decides_which_nodes_count() {
    let world = |flag: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1
             pool default req=team:in:red req=zone:in:a,b
             node n cpu=1 mem=2Gi zone=a label=team=blue
             bound n x cpu=1 mem=1Gi label=app=x
             pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x{flag} select=team:in:red"
        )
    };
    check(&world(""), "default/t a: p");
    check(&world("/anynode"), "default/t b: p");
}

// SCH-226
#[test]
fn several_constraints_hold_together() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         pod p*4 cpu=1 mem=1Gi label=app=x spread=zone/1/app=x spread=host/1/app=x",
        "default/t a: p-0
         default/t b: p-1
         default/t c: p-2
         default/t a: p-3",
    );
}

// SCH-227
#[test]
fn two_workloads_spread_over_hosts_share_them() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         pod x*2 cpu=1 mem=1Gi label=app=x spread=host/1/app=x
         pod y*2 cpu=1 mem=1Gi label=app=y spread=host/1/app=y",
        "default/t: x-0 y-0
         default/t: x-1 y-1",
    );
}

// SCH-191, SCH-192, SCH-476
#[test]
fn a_missing_selector_counts_nobody() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         node n cpu=4 mem=8Gi zone=a
         bound n x cpu=1 mem=1Gi
         bound n y cpu=1 mem=1Gi
         pod p cpu=1 mem=1Gi spread=zone/1/!",
        "n: p",
    );
}

// SCH-186, SCH-188, SCH-474
#[test]
fn revisions_told_apart_by_a_label_key_do_not_share_counts() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         node n cpu=4 mem=8Gi zone=a
         bound n old cpu=1 mem=1Gi label=app=x label=rev=1
         pod p cpu=1 mem=1Gi label=app=x label=rev=2 spread=zone/1/app=x,rev=2",
        "n: p",
    );
}

// SCH-205: as kube-scheduler, only machines with every key the pod spreads over count.
#[test]
fn machines_without_another_key_of_the_pod_do_not_count() {
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default req=rack:in:r1
         node n cpu=1 mem=4Gi zone=c
         bound n x cpu=1 mem=1Gi label=app=x
         pod p*4 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x spread=rack/9/app=x",
        "default/t a: p-0
         default/t b: p-1
         default/t a: p-2
         default/t b: p-3",
    );
}

// SCH-198, SCH-205
#[test]
fn soft_taints_keep_no_machine_from_being_counted() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default req=zone:in:a,b
         pool soft req=zone:in:c taint=s:PreferNoSchedule
         pod p*3 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x/taints select=zone:in:a,b
         pod q*4 cpu=2 mem=1Gi label=app=y spread=zone/1/app=y/taints",
        "default/t a: p-0
         default/t b: p-1
         default/t a: p-2
         default/t a: q-0
         default/t b: q-1
         soft/t c: q-2
         default/t a: q-3",
    );
}

// SCH-195, SCH-205: upstream holds the minimum at zero for a zone none of whose machines the pod may use.
#[test]
fn zones_of_pools_the_selector_rules_out_do_not_count() {
    let cluster = |policy: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1
             pool red label=team=red req=zone:in:a,b
             pool blue label=team=blue req=zone:in:c
             pod p*4 cpu=2 mem=1Gi label=app=x select=team:in:red spread=zone/1/app=x{policy}"
        )
    };
    check(
        &cluster(""),
        "red/t a: p-0
         red/t b: p-1
         red/t a: p-2
         red/t b: p-3",
    );
    let all = Fixture::read(&cluster("/anynode")).solve(&upstream());
    assert_eq!(all.unschedulable.len(), 2);
}

// SCH-205, SCH-206
#[test]
fn whether_a_machine_counts_is_settled_when_a_counted_pod_is_placed() {
    let fixture = Fixture::read(
        "type intel cpu=8 mem=16Gi price=0.3
         type arm cpu=8 mem=16Gi price=0.2 arch=arm64
         pool default req=arch:in:amd64,arm64
         pod other cpu=4 mem=1Gi label=app=x
         pod p*2 cpu=3 mem=1Gi label=app=x select=arch:in:amd64 spread=zone/1/app=x",
    );
    let plan = fixture.solve(&upstream());
    let arch = plan.launches[0].requirements.get(kerf_model::intern::sym::ARCH);
    assert!(arch.and_then(kerf_model::requirement::Requirement::single).is_some());
}

// SCH-217, SCH-482
#[test]
fn a_well_known_key_no_type_has_empties_nothing() {
    check(
        &two_core_world(
            "node n cpu=1 mem=1Gi label=topology.kubernetes.io/region=r
             bound n full cpu=1 mem=1Gi
             pod odd cpu=2 mem=1Gi label=app=x spread=region/1/app=x
             pod repelling cpu=2 mem=1Gi label=app=z apart=region/app=y
             pod other cpu=1 mem=1Gi label=app=x
             pod repelled*2 cpu=1 mem=1Gi label=app=y",
        ),
        "default/t: repelling
         default/t: other repelled-0
         default/t: repelled-1
         - odd: no instance type met the requirements/resources/offering tuple, requirements=karpenter.sh/nodepool In [default], \
         resources={\"cpu\":\"2\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-201: upstream plans nothing while a claim is on its way; here the pods it was made for count.
#[test]
fn pods_promised_to_a_claim_count() {
    check(
        &two_core_world(
            "node n cpu=2 mem=4Gi zone=a pool=default claim-only
             bound n x cpu=2 mem=1Gi label=app=x
             pod p*2 cpu=2 mem=1Gi label=app=x spread=zone/1/app=x",
        ),
        "default/t b: p-0
         default/t c: p-1",
    );
}

/// The number of pending pods that kube-scheduler binds to the node, one after the other, in a cluster of these nodes.
fn bound_in_turn(text: &str, node: &str) -> usize {
    let mut cluster = Fixture::read(text).snapshot;
    let pods = std::mem::take(&mut cluster.pending);
    let at = cluster.nodes.iter().position(|known| *known.name == *node).unwrap();
    let mut bound = 0;
    for pod in &pods {
        let target = std::sync::Arc::clone(&cluster.nodes[at]);
        if kerf_check::filter::feasible(pod, &target, &cluster).is_ok() {
            let mut taken = kerf_model::node::Node::clone(&target);
            taken.requested.add(&pod.shape.requests);
            taken.pods.push(std::sync::Arc::clone(pod));
            cluster.nodes[at] = std::sync::Arc::new(taken);
            bound += 1;
        }
    }
    bound
}

// SCH-225: the recorded scenario 024, where upstream puts seven pods pinned to one zone there although `nodeAffinityPolicy: Ignore` lets the
// other zones, which the same plan opens, hold the minimum at zero. The pods are alike, so any order of them is this one.
#[test]
fn of_pods_pinned_to_one_zone_that_look_at_all_kube_scheduler_binds_one() {
    let pods = "pod d10*7 cpu=1 mem=4Gi label=app=d10 select=zone:in:a spread=zone/1/app=d10/anynode";
    let nodes = "node a cpu=16 mem=64Gi zone=a
                 node b cpu=16 mem=64Gi zone=b
                 node c cpu=2 mem=8Gi zone=c taint=dedicated=true:NoSchedule";
    assert_eq!(bound_in_turn(&format!("{nodes}\n{pods}"), "a"), 1);
    let plan = Fixture::read(&format!(
        "type t cpu=16 mem=64Gi price=0.1
         pool default req=zone:in:a,b
         pool tainted req=zone:in:c taint=dedicated=true:NoSchedule
         {pods}"
    ))
    .solve(&Options::default());
    assert_eq!(plan.unschedulable.len(), 6);
    // Under Honor, which is the default, all go.
    assert_eq!(
        bound_in_turn(&format!("{nodes}\n{}", pods.replace("/anynode", "")), "a"),
        7
    );
}

/// Zone a has one pod `app=x` and room, zone b has neither. Pod `strict` may not go to zone a; another pod may, if its constraint is its own.
#[track_caller]
fn has_a_group_of_its_own(other: &str) {
    let text = format!(
        "type t cpu=2 mem=4Gi price=0.1
         node n cpu=8 mem=16Gi zone=a label=rack=r
         node full cpu=0.1 mem=0.1Gi zone=b label=rack=r taint=team:NoSchedule
         bound n x cpu=1 mem=1Gi label=app=x
         pod strict cpu=1 mem=1Gi label=app=x spread=zone/1/app=x
         pod other cpu=1 mem=1Gi {other}"
    );
    let plan = Fixture::read(&text).solve(&upstream());
    let placed: Vec<&str> = plan
        .existing
        .iter()
        .flat_map(|one| &one.pods)
        .map(|pod| &*pod.name)
        .collect();
    assert_eq!(placed, ["other"], "{other}");
}

// SCH-186: a group is that of all pods with an equal constraint, and only theirs: each part of it makes another group.
#[test]
fn constraints_that_differ_in_one_part_are_two_groups() {
    // The topology key, the kind, the namespace, the selector, the skew.
    has_a_group_of_its_own("label=app=x spread=rack/1/app=x");
    has_a_group_of_its_own("label=app=x near=zone/app=x");
    has_a_group_of_its_own("ns=other label=app=x spread=zone/1/app=x");
    has_a_group_of_its_own("label=app=y spread=zone/1/app=y");
    has_a_group_of_its_own("label=app=x spread=zone/2/app=x");
    // The node filter: node selector, required terms, both policies.
    has_a_group_of_its_own("label=app=x select=zone:in:a spread=zone/1/app=x");
    has_a_group_of_its_own("label=app=x term=zone:in:a spread=zone/1/app=x");
    has_a_group_of_its_own("label=app=x spread=zone/1/app=x/taints");
}

// SCH-186: tolerations are a part of the node filter where taints count.
#[test]
fn pods_with_other_tolerations_count_other_nodes() {
    let text = "type t cpu=2 mem=4Gi price=0.1
         node n cpu=8 mem=16Gi zone=a
         node full cpu=0.1 mem=0.1Gi zone=b taint=team:NoSchedule
         bound n x cpu=1 mem=1Gi label=app=x
         pod strict cpu=1 mem=1Gi label=app=x tol=team spread=zone/1/app=x/taints
         pod other cpu=1 mem=1Gi label=app=x spread=zone/1/app=x/taints";
    let plan = Fixture::read(text).solve(&upstream());
    let placed: Vec<&str> = plan
        .existing
        .iter()
        .flat_map(|one| &one.pods)
        .map(|pod| &*pod.name)
        .collect();
    assert_eq!(placed, ["other"]);
}
