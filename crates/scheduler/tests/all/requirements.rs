//! Sections 6 to 8: requirements, labels, taints.

use kerf_testkit::fixture::check;

const TYPES: &str = "
    type small cpu=2 mem=4Gi price=0.1
    type arm cpu=2 mem=4Gi price=0.05 arch=arm64
";

fn world(rest: &str) -> String {
    format!("{TYPES}{rest}")
}

// SCH-101, SCH-102
#[test]
fn an_unlabelled_node_refuses_what_a_new_claim_accepts() {
    check(
        &world(
            "pool default
             node bare cpu=8 mem=16Gi
             pod web cpu=1 mem=1Gi select=zone:in:b
             pod any cpu=1 mem=1Gi",
        ),
        "default/arm b: web
         bare: any",
    );
}

// SCH-101, SCH-452
#[test]
fn opting_out_of_a_label_needs_no_definition() {
    check(
        &world(
            "pool default
             pod notin cpu=0.1 mem=1Gi select=team:notin:red
             pod absent cpu=0.1 mem=1Gi select=team:absent",
        ),
        "default/arm: notin absent",
    );
}

// SCH-109, SCH-101, SCH-451
#[test]
fn a_custom_label_must_be_defined_by_a_pool() {
    check(
        &world(
            "pool default
             pod in cpu=0.1 mem=1Gi select=team:in:red
             pod exists cpu=0.1 mem=1Gi select=team:exists",
        ),
        "- exists: incompatible requirements, label \"team\" does not have known values
         - in: incompatible requirements, label \"team\" does not have known values",
    );
    check(
        &world(
            "pool default req=team:in:red,blue
             pod in cpu=0.1 mem=1Gi select=team:in:red
             pod exists cpu=0.1 mem=1Gi select=team:exists",
        ),
        "default/arm: in exists",
    );
}

// SCH-110
#[test]
fn a_pool_value_is_kept_or_in_the_way() {
    check(
        &world(
            "pool default label=team=red
             pod exists cpu=0.1 mem=1Gi select=team:exists
             pod absent cpu=0.1 mem=1Gi select=team:absent
             pod other cpu=0.1 mem=1Gi select=team:notin:red",
        ),
        "default/arm: exists
         - absent: incompatible requirements, key team, team DoesNotExist not in team In [red]
         - other: incompatible requirements, key team, team NotIn [red] not in team In [red]",
    );
}

// SCH-105
#[test]
fn a_misspelt_key_gets_a_hint() {
    for (key, hint) in [
        ("node.io/zone", " (typo of \"topology.kubernetes.io/zone\"?)"),
        (
            "topology.kubernetesio/zone",
            " (typo of \"topology.kubernetes.io/zone\"?)",
        ),
        (
            "topology.kubernetes.io/regio",
            " (typo of \"topology.kubernetes.io/region\"?)",
        ),
        ("karpenter/nodepool", " (typo of \"karpenter.sh/nodepool\"?)"),
        ("deployment", ""),
    ] {
        check(
            &world(&format!("pool default\npod p cpu=0.1 mem=1Gi select={key}:exists")),
            &format!("- p: incompatible requirements, label \"{key}\" does not have known values{hint}"),
        );
    }
}

// SCH-106, SCH-472
#[test]
fn contradictory_constraints_are_unsatisfiable_even_where_nobody_defines_the_key() {
    check(
        &world(
            "pool default
             node bare cpu=8 mem=16Gi
             pod torn cpu=0.1 mem=1Gi select=team:in:a term=team:in:b",
        ),
        "- torn: incompatible requirements, key team, team DoesNotExist not in team Exists",
    );
}

// SCH-100, SCH-103
#[test]
fn claims_judge_a_well_known_key_by_the_truth_table() {
    for (pool, pod, fits) in [
        ("zone:exists", "zone:in:a", true),
        ("zone:exists", "zone:absent", false),
        ("zone:in:a", "zone:in:b", false),
        ("zone:in:a,b", "zone:notin:a", true),
        ("zone:in:a", "zone:notin:a", false),
        ("zone:notin:a", "zone:in:a", false),
        ("zone:notin:a", "zone:in:a,b", true),
        ("zone:notin:a", "zone:notin:b", true),
    ] {
        let text = world(&format!("pool default req={pool}\npod p cpu=0.1 mem=1Gi select={pod}"));
        let plan = kerf_testkit::fixture::Fixture::read(&text).solve(&kerf_testkit::fixture::upstream());
        assert_eq!(plan.launches.len() == 1, fits, "pool {pool}, pod {pod}");
    }
}

// SCH-087, SCH-091
#[test]
fn bounds_compare_integers() {
    check(
        "type t1 cpu=2 mem=4Gi price=0.1 has=generation=1
         type t9 cpu=2 mem=4Gi price=0.3 has=generation=9
         type tx cpu=2 mem=4Gi price=0.2 has=generation=new
         pool default req=generation:exists
         pod p cpu=1 mem=1Gi select=generation:gt:1",
        "default/t9: p",
    );
}

// SCH-113, SCH-114
#[test]
fn a_pool_taint_keeps_out_who_does_not_tolerate_it() {
    check(
        &world(
            "pool default taint=team=red:NoSchedule
             pod yes cpu=0.1 mem=1Gi tol=team=red
             pod all cpu=0.1 mem=1Gi tol=*
             pod no cpu=0.1 mem=1Gi tol=team=blue",
        ),
        "default/arm: all yes
         - no: did not tolerate taint (taint=team=red:NoSchedule)",
    );
}

// SCH-115
#[test]
fn startup_taints_repel_nobody() {
    check(
        &world("pool default startup=cni:NoExecute\npod p cpu=0.1 mem=1Gi\npod q cpu=0.1 mem=1Gi"),
        "default/arm: p q",
    );
}

// SCH-117, SCH-499
#[test]
fn the_taints_of_a_node_count() {
    check(
        &world(
            "pool default
             node cordoned cpu=8 mem=16Gi taint=node.kubernetes.io/unschedulable
             pod p cpu=0.1 mem=1Gi
             pod q cpu=0.1 mem=1Gi tol=node.kubernetes.io/unschedulable",
        ),
        "default/arm: p
         cordoned: q",
    );
}

// SCH-259
#[test]
fn incompatible_pods_get_separate_claims() {
    check(
        &world(
            "pool default
             pod x86 cpu=0.1 mem=1Gi select=arch:in:amd64
             pod arm cpu=0.1 mem=1Gi select=arch:in:arm64",
        ),
        "default/small: x86
         default/arm: arm",
    );
}

// SCH-253: upstream lets the opt-out of one pod define the key, so that another's preference for some value seems met.
#[test]
fn opting_out_of_a_label_defines_it_for_nobody() {
    check(
        "type t cpu=4 mem=8Gi price=0.1
         pool default
         pod out cpu=2 mem=1Gi select=team:notin:red
         pod in cpu=1 mem=1Gi select=team:in:green",
        "default/t: out
         - in: incompatible requirements, label \"team\" does not have known values",
    );
    check(
        "node n cpu=4 mem=8Gi
         pod out cpu=2 mem=1Gi select=team:notin:red
         pod in cpu=1 mem=1Gi select=team:in:green",
        "n: out
         - in: nodepool requirements filtered out all available instance types",
    );
}
