//! Section 17: preferences.

use kerf_model::relaxation::Relaxation;
use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check, check_with, upstream};
use kerf_units::policy::PreferencePolicy;

const WORLD: &str = "
    type t cpu=2 mem=4Gi price=0.1
    type u cpu=2 mem=4Gi price=0.2 arch=arm64
    pool default
";

fn world(rest: &str) -> String {
    format!("{WORLD}{rest}")
}

// SCH-098, SCH-266, SCH-267
#[test]
fn required_terms_are_tried_in_order() {
    check(
        &world("pod p cpu=1 mem=1Gi term=arch:in:arm64 term=arch:in:amd64"),
        "default/u: p",
    );
    check(
        &world("pod p cpu=1 mem=1Gi term=arch:in:s390x term=arch:in:amd64"),
        "default/t: p",
    );
}

// SCH-268
#[test]
fn the_last_required_term_is_never_dropped() {
    check(
        &world("pod p cpu=1 mem=1Gi term=zone:in:x term=zone:in:y"),
        "- p: no instance type met the scheduling requirements or had a required offering, requirements=karpenter.sh/nodepool In [default], topology.kubernetes.io/zone In [y], resources={\"cpu\":\"1\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-266, SCH-267, SCH-268, SCH-273
#[test]
fn the_heaviest_preference_holds_until_it_cannot() {
    check(
        &world("pod p cpu=1 mem=1Gi prefer=1/arch:in:amd64 prefer=5/arch:in:arm64"),
        "default/u: p",
    );
    check(
        &world("pod p cpu=1 mem=1Gi prefer=1/arch:in:arm64 prefer=5/arch:in:s390x"),
        "default/u: p",
    );
    check(
        &world("pod p cpu=1 mem=1Gi prefer=5/arch:in:amd64 prefer=5/arch:in:arm64"),
        "default/t: p",
    );
    check(
        &world("pod p cpu=1 mem=1Gi select=arch:in:arm64 prefer=1/arch:in:amd64"),
        "default/u: p",
    );
}

// SCH-267
#[test]
fn pod_affinity_is_dropped_before_anti_affinity_before_node_preferences() {
    check(
        &world("pod p cpu=1 mem=1Gi label=app=p near~9=zone/app=none apart~1=zone/app=q prefer=1/arch:in:arm64"),
        "default/u a: p",
    );
    check(
        "type t cpu=2 mem=4Gi price=0.1 zones=a
         type u cpu=2 mem=4Gi price=0.2 zones=a arch=arm64
         pool default
         node n cpu=1 mem=1Gi zone=a
         bound n q cpu=1 mem=1Gi label=app=q
         pod p cpu=1 mem=1Gi apart~9=zone/app=q prefer=1/arch:in:arm64",
        "default/u: p",
    );
}

// SCH-269
#[test]
fn required_terms_run_out_before_a_preference_is_dropped() {
    check(
        &world("pod p cpu=1 mem=1Gi term=arch:in:amd64 term=arch:in:arm64 prefer=1/arch:in:arm64"),
        "default/u: p",
    );
}

// SCH-269: upstream stops before it tries a term again that failed because of a preference.
#[test]
fn a_required_term_is_tried_again_once_preferences_are_gone() {
    check(
        &world("pod p cpu=1 mem=1Gi term=arch:in:amd64 term=arch:in:none prefer=1/zone:in:nowhere"),
        "default/t: p",
    );
}

// SCH-119: upstream looks for soft taints on pools only.
#[test]
fn a_soft_taint_on_a_node_is_given_in_to_at_last() {
    check(
        "node n cpu=4 mem=8Gi taint=soft:PreferNoSchedule
         pod p cpu=1 mem=1Gi",
        "n: p",
    );
    check(
        &world(
            "node n cpu=4 mem=8Gi taint=soft:PreferNoSchedule
             pod p cpu=1 mem=1Gi",
        ),
        "default/t: p",
    );
}

// SCH-240, SCH-266
#[test]
fn preferred_anti_affinity_spreads_while_it_can() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default limit=nodes:2
         pod p*3 cpu=0.5 mem=1Gi label=app=x apart~1=host/app=x",
        "default/t: p-0 p-2
         default/t: p-1",
    );
}

// SCH-119, SCH-267, SCH-473
#[test]
fn a_soft_taint_repels_until_the_last_step_even_against_weight() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool soft weight=10 taint=x:PreferNoSchedule
         pool plain
         pod p cpu=1 mem=1Gi",
        "plain/t: p",
    );
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool soft taint=x:PreferNoSchedule
         pod p cpu=1 mem=1Gi",
        "soft/t: p",
    );
}

// SCH-270
#[test]
fn hard_rules_are_never_relaxed() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool hard taint=x:NoSchedule
         pod p cpu=1 mem=1Gi",
        "- p: did not tolerate taint (taint=x:NoSchedule)",
    );
}

// SCH-272
#[test]
fn under_ignore_preferences_do_not_matter() {
    let ignore = Options {
        preference_policy: PreferencePolicy::Ignore,
        ..upstream()
    };
    check_with(
        &ignore,
        &world(
            "pod p*2 cpu=1 mem=1Gi label=app=x prefer=5/arch:in:arm64 apart~5=host/app=x spread=zone/1/app=x/soft
             pod q cpu=2 mem=1Gi term=arch:in:s390x term=arch:in:arm64",
        ),
        "default/u: q
         default/t: p-0 p-1",
    );
    check_with(
        &ignore,
        "type t cpu=2 mem=4Gi price=0.1
         pool soft taint=x:PreferNoSchedule
         pod p cpu=1 mem=1Gi",
        "soft/t: p",
    );
}

// SCH-274, SCH-190, SCH-458
#[test]
fn every_attempt_starts_unrelaxed() {
    // `first` is tried before `zoned` opens zone b; `near` is satisfiable only then, and it is honoured for the second pod.
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod zoned cpu=2 mem=1Gi label=app=z select=zone:in:b
         pod follower cpu=1 mem=1Gi near~5=zone/app=z",
        "default/t b: zoned
         default/t b: follower",
    );
}

/// By pod: the relaxations it was placed with.
fn steps(options: &Options, text: &str) -> Vec<(String, Vec<Relaxation>)> {
    let plan = Fixture::read(text).solve(options);
    let relaxed = plan.relaxed.iter();
    relaxed
        .map(|one| (one.pod.name.to_string(), one.steps.to_vec()))
        .collect()
}

// SCH-267, SCH-268, SCH-487
#[test]
fn a_plan_names_every_step_it_took_and_no_other() {
    use Relaxation::{PreferredAffinity, PreferredAntiAffinity, PreferredTerm, RequiredTerm, SoftTaints, Spread};
    let all = [
        RequiredTerm(0),
        PreferredAffinity(1),
        PreferredAffinity(0),
        PreferredAntiAffinity(0),
        PreferredTerm(1),
        PreferredTerm(0),
        Spread(0),
        SoftTaints,
    ];
    let wishes = "term=arch:in:s390x term=arch:in:amd64 near~1=zone/app=none near~9=zone/app=none apart~1=zone/app=q
        prefer=1/arch:in:arm64 prefer=5/arch:in:arm64 spread=zone/1/app=p/soft"
        .replace('\n', " ");
    let text = format!(
        "type t cpu=2 mem=4Gi price=0.1
         pool soft taint=x:PreferNoSchedule
         pod content cpu=1 mem=1Gi tol=*
         pod pleased cpu=1 mem=1Gi tol=* prefer=1/arch:in:amd64
         pod huge cpu=9 mem=1Gi {wishes}
         pod placed cpu=1 mem=1Gi {wishes}
         pod second cpu=1 mem=1Gi tol=* prefer=1/arch:in:amd64 prefer=5/arch:in:s390x"
    );
    for options in [upstream(), Options::default()] {
        assert_eq!(
            steps(&options, &text),
            [
                ("huge".to_owned(), all.to_vec()),
                ("placed".to_owned(), all.to_vec()),
                ("second".to_owned(), vec![PreferredTerm(1)]),
            ]
        );
    }
    let ignore = Options {
        preference_policy: PreferencePolicy::Ignore,
        ..upstream()
    };
    let hard = vec![RequiredTerm(0), SoftTaints];
    assert_eq!(
        steps(&ignore, &text),
        [("huge".to_owned(), hard.clone()), ("placed".to_owned(), hard)]
    );
}
