//! Section 18: minValues.

use kerf_model::intern::sym;
use kerf_scheduler::Options;
use kerf_testkit::fixture::{Fixture, check, check_with, upstream};
use kerf_units::policy::MinValuesPolicy;

const TYPES: &str = "
    type t1 cpu=2 mem=4Gi price=0.1
    type t2 cpu=4 mem=8Gi price=0.2
    type t3 cpu=8 mem=16Gi price=0.3
";

fn best_effort() -> Options {
    Options {
        min_values_policy: MinValuesPolicy::BestEffort,
        ..upstream()
    }
}

// SCH-275, SCH-279
#[test]
fn a_pod_may_not_narrow_a_claim_below_its_min_values() {
    check(
        &format!("{TYPES}pool default req=type:exists::min=2\npod p cpu=3 mem=1Gi"),
        "default/t2: p",
    );
    check(
        &format!("{TYPES}pool default req=type:exists::min=2\npod p cpu=5 mem=1Gi"),
        "- p: minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type]), \
         requirements=karpenter.sh/nodepool In [default], node.kubernetes.io/instance-type Exists minValues 2, \
         resources={\"cpu\":\"5\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-280
#[test]
fn pods_that_leave_too_few_types_together_get_two_claims() {
    check(
        &format!("{TYPES}pool default req=type:exists::min=2\npod p*2 cpu=3 mem=1Gi"),
        "default/t2: p-0\ndefault/t2: p-1",
    );
}

// SCH-144, SCH-276
#[test]
fn a_pool_that_cannot_meet_its_min_values_is_empty_under_strict() {
    let fixture = Fixture::read(&format!(
        "{TYPES}pool default req=type:exists::min=4\npod p cpu=1 mem=1Gi"
    ));
    assert_eq!(fixture.solve(&upstream()).empty_pools, vec![("default".into(), true)]);
}

// SCH-282, SCH-283, SCH-284, SCH-285, SCH-466
#[test]
fn best_effort_lowers_the_figure_of_a_new_claim() {
    let text = format!(
        "{TYPES}pool heavy weight=10 req=type:exists::min=2
         pool light
         pod p cpu=5 mem=1Gi
         pod q cpu=3 mem=1Gi"
    );
    let fixture = Fixture::read(&text);
    let request = kerf_scheduler::Request::pending(&fixture.snapshot);
    let plan = kerf_scheduler::solve(&request, &best_effort(), &|| false);
    assert_eq!(fixture.show(&plan), "heavy/t3: p q");
    let launch = &plan.launches[0];
    assert!(launch.min_values_relaxed);
    assert_eq!(
        launch
            .requirements
            .get(sym::INSTANCE_TYPE)
            .and_then(|types| types.min_values),
        Some(1)
    );
}

// SCH-281, SCH-315
#[test]
fn the_figure_is_carried_into_the_claim() {
    let fixture = Fixture::read(&format!(
        "{TYPES}pool default req=type:exists::min=2\npod p cpu=1 mem=1Gi"
    ));
    let plan = fixture.solve(&upstream());
    let types = plan.launches[0].requirements.get(sym::INSTANCE_TYPE).unwrap();
    assert_eq!((types.values.len(), types.min_values), (3, Some(2)));
    assert!(!plan.launches[0].min_values_relaxed);
}

// SCH-278
#[test]
fn the_largest_figure_on_a_key_counts() {
    check(
        &format!("{TYPES}pool default req=type:in:t2,t3:min=1 req=type:notin:t1:min=2\npod p cpu=5 mem=1Gi"),
        "- p: minValues requirement is not met for label(s) (label(s)=[node.kubernetes.io/instance-type]), \
         requirements=karpenter.sh/nodepool In [default], node.kubernetes.io/instance-type In [t2 t3] minValues 2, \
         resources={\"cpu\":\"5\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

// SCH-282, SCH-332
#[test]
fn without_any_type_the_ordinary_text_is_given() {
    check_with(
        &best_effort(),
        &format!("{TYPES}pool default req=type:exists::min=2\npod p cpu=9 mem=1Gi"),
        "- p: no instance type has enough resources, requirements=karpenter.sh/nodepool In [default], \
         node.kubernetes.io/instance-type Exists minValues 2, resources={\"cpu\":\"9\",\"memory\":\"1Gi\",\"pods\":\"1\"}",
    );
}

fn many_types(rest: &str) -> String {
    let types: Vec<String> = (0..700)
        .map(|i| {
            format!(
                "type t{i:03} cpu=4 mem=8Gi price={:.3} has=family={}",
                1.0 + i as f64 / 1000.0,
                i / 650
            )
        })
        .collect();
    format!("{}\n{rest}", types.join("\n"))
}

fn types_of_the_launch(text: &str, range: &str) -> String {
    let fixture = Fixture::read(text);
    let options = Options {
        launch_price_range: range.parse().unwrap(),
        ..upstream()
    };
    let launch = &fixture.solve(&options).launches[0];
    let name = |number: &u32| launch.catalogue.types[*number as usize].name;
    let names: Vec<&str> = launch
        .types
        .iter()
        .map(|number| fixture.snapshot.interner.text(name(number)))
        .collect();
    let required = launch.requirements.get(sym::INSTANCE_TYPE).unwrap();
    assert_eq!(
        required.values.len(),
        names.len(),
        "the requirement lists the same types"
    );
    names.join(" ")
}

#[test]
fn a_launch_lists_types_within_its_price_range() {
    let of = |range| types_of_the_launch(&format!("{TYPES}pool default\npod p cpu=1 mem=1Gi"), range);
    assert_eq!(of(""), "t1 t2 t3", "every type");
    assert_eq!(of("200"), "t1 t2 t3");
    assert_eq!(of("199"), "t1 t2");
    assert_eq!(of("100"), "t1 t2");
    assert_eq!(of("0"), "t1");
}

#[test]
fn a_launch_lists_dearer_types_as_far_as_min_values_need_them() {
    for (least, range, expected) in [
        (1, "0", "t1"),
        (2, "0", "t1 t2"),
        (3, "0", "t1 t2 t3"),
        (2, "200", "t1 t2 t3"),
    ] {
        let text = format!("{TYPES}pool default req=type:exists::min={least}\npod p cpu=1 mem=1Gi");
        assert_eq!(
            types_of_the_launch(&text, range),
            expected,
            "minValues {least} and {range} %"
        );
    }
}

// SCH-286, SCH-315, SCH-287, API-106
#[test]
fn a_launch_offers_the_cheapest_600_types() {
    let fixture = Fixture::read(&many_types("pool default\npod p cpu=1 mem=1Gi"));
    let launch = &fixture.solve(&upstream()).launches[0];
    let names: Vec<&str> = launch
        .types
        .iter()
        .map(|at| {
            fixture
                .snapshot
                .interner
                .text(launch.catalogue.types[*at as usize].name)
        })
        .collect();
    assert_eq!((names.len(), names[0], names[599]), (600, "t000", "t599"));
}

// SCH-286, SCH-288, SCH-465
#[test]
fn when_the_cut_breaks_min_values_the_claim_is_discarded() {
    check(
        &many_types("pool default req=family:exists::min=2\npod p cpu=1 mem=1Gi"),
        "- p: pod didn\u{2019}t schedule because NodePool couldn\u{2019}t meet minValues requirements, validating minValues, \
         minValues requirement is not met for label(s) (label(s)=[family]) (NodePool=default)",
    );
}
