//! Which types and offerings a launch gets.

use crate::class::class;
use crate::market::{claim, kind, names, offering, reserved};
use kerf_aws::launch::{
    NoneLeft, Selection, TYPES_MAX, Tenancy, capacity_type, is_risky_on_demand_fallback, select, tenancy,
};
use kerf_aws::offering::CapacityType;
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::{Interner, sym};
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use kerf_units::policy::MinValuesPolicy;
use serde_json::json;

const CAPACITY_TYPE: &str = "karpenter.sh/capacity-type";
const ZONE: &str = "topology.kubernetes.io/zone";

/// Runs the filters; panics where nothing is left.
fn chosen(claim: &kerf_aws::launch::LaunchClaim<'_>, kinds: &[InstanceType]) -> Selection {
    select(claim, kinds.to_vec(), MinValuesPolicy::Strict).unwrap()
}

/// `type: zone/capacity type, …` for each type.
fn text(selection: &Selection, interner: &Interner) -> Vec<String> {
    let each = selection.types.iter().map(|kind| {
        let offerings = kind.offerings.iter().map(|offering| {
            let zone = interner.text(offering.zone().unwrap()).trim_start_matches("us-east-1");
            format!("{zone}/{}", interner.text(offering.capacity_type().unwrap()))
        });
        format!(
            "{}: {}",
            interner.text(kind.name),
            offerings.collect::<Vec<_>>().join(", ")
        )
    });
    each.collect()
}

// AWS-233, AWS-234
#[test]
fn a_type_needs_an_available_offering_on_which_the_claim_fits() {
    let interner = Interner::default();
    let class = class(json!({}));
    let od = |zone: &str| offering(&interner, zone, "on-demand", 0.1);
    let mut unavailable = od("a");
    unavailable.available = false;
    let kinds = [
        kind("m5.large", &class, vec![od("a")], &interner),
        kind("c5.large", &class, vec![unavailable], &interner),
        kind("r5.large", &class, vec![od("b")], &interner),
        kind("m6g.large", &class, vec![od("a")], &interner),
    ];
    let claim = claim(
        &interner,
        &[(ZONE, &["us-east-1a"]), ("kubernetes.io/arch", &["amd64"])],
    );
    assert_eq!(names(&chosen(&claim, &kinds).types, &interner), ["m5.large"]);
    let nothing = select(&claim, kinds[1..].to_vec(), MinValuesPolicy::Strict);
    assert_eq!(nothing.unwrap_err(), NoneLeft::Unavailable);
}

// AWS-234
#[test]
fn offerings_with_their_own_capacity_are_judged_by_it() {
    let interner = Interner::default();
    let class = class(json!({}));
    let gib = 1 << 30;
    let mut large = offering(&interner, "a", "on-demand", 0.1);
    large.capacity_override = Some(Box::new(Resources::new().with(sym::MEMORY, 64 * gib)));
    let small = offering(&interner, "b", "on-demand", 0.1);
    let mut claim = claim(&interner, &[]);
    claim.requests = Resources::new().with(sym::MEMORY, 32 * gib);
    let pair = kind("m5.large", &class, vec![small.clone(), large.clone()], &interner);
    assert_eq!(chosen(&claim, &[pair]).types.len(), 1);
    large.available = false;
    let closed = kind("m5.large", &class, vec![small, large], &interner);
    assert!(select(&claim, vec![closed], MinValuesPolicy::Strict).is_err());
}

// AWS-235
#[test]
fn a_launch_uses_one_kind_of_reservation() {
    let interner = Interner::default();
    let class = class(json!({}));
    let reserved = |zone: &str, id: &str, kind: &str, price: f64| reserved(&interner, zone, id, kind, price, 5);
    let kinds = |cheapest: &str| {
        let price = |kind: &str| if kind == cheapest { 0.001 } else { 0.002 };
        vec![
            kind(
                "m5.large",
                &class,
                vec![
                    offering(&interner, "a", "spot", 0.01),
                    reserved("a", "cr-1", "default", price("default")),
                    reserved("b", "cr-2", "interruptible", price("interruptible")),
                ],
                &interner,
            ),
            kind(
                "c5.large",
                &class,
                vec![reserved("a", "cr-3", "capacity-block", price("capacity-block"))],
                &interner,
            ),
            kind(
                "r5.large",
                &class,
                vec![offering(&interner, "a", "on-demand", 0.01)],
                &interner,
            ),
        ]
    };
    let all = claim(&interner, &[]);
    for (cheapest, want) in [
        ("default", "m5.large: a/reserved"),
        ("interruptible", "m5.large: b/reserved"),
        ("capacity-block", "c5.large: a/reserved"),
        ("", "m5.large: a/reserved"),
    ] {
        assert_eq!(text(&chosen(&all, &kinds(cheapest)), &interner), [want], "{cheapest}");
    }
    let without = claim(&interner, &[(CAPACITY_TYPE, &["on-demand", "spot"])]);
    assert_eq!(
        names(&chosen(&without, &kinds("")).types, &interner),
        ["m5.large", "r5.large"]
    );
}

// AWS-236, AWS-487
#[test]
fn a_launch_from_capacity_blocks_has_one_type_and_one_offering() {
    let interner = Interner::default();
    let class = class(json!({}));
    let block = |zone: &str, id: &str, price: f64| reserved(&interner, zone, id, "capacity-block", price, 5);
    let kinds = [
        kind(
            "m5.large",
            &class,
            vec![block("a", "cr-1", 0.003), block("b", "cr-2", 0.002)],
            &interner,
        ),
        kind("c5.large", &class, vec![block("a", "cr-3", 0.001)], &interner),
    ];
    let claim = claim(&interner, &[]);
    assert_eq!(text(&chosen(&claim, &kinds), &interner), ["c5.large: a/reserved"]);
    assert_eq!(text(&chosen(&claim, &kinds[..1]), &interner), ["m5.large: b/reserved"]);
}

// AWS-237
#[test]
fn each_zone_has_its_largest_reservation() {
    let interner = Interner::default();
    let class = class(json!({}));
    let of = |zone: &str, id: &str, capacity: u32| reserved(&interner, zone, id, "default", 0.001, capacity);
    let kinds = [kind(
        "m5.large",
        &class,
        vec![of("a", "cr-1", 1), of("a", "cr-2", 5), of("b", "cr-3", 2)],
        &interner,
    )];
    let selection = chosen(&claim(&interner, &[]), &kinds);
    let ids: Vec<&str> = selection.types[0]
        .offerings
        .iter()
        .map(|offering| interner.text(offering.reservation.unwrap().id))
        .collect();
    assert_eq!(ids, ["cr-2", "cr-3"]);
}

// AWS-238
#[test]
fn special_machines_are_launched_only_alone() {
    let interner = Interner::default();
    let class = class(json!({}));
    let od = |price: f64| vec![offering(&interner, "a", "on-demand", price)];
    let kinds = [
        kind("m5.large", &class, od(0.5), &interner),
        kind("m5.metal", &class, od(0.1), &interner),
        kind("g5.xlarge", &class, od(0.1), &interner),
        kind("inf2.xlarge", &class, od(0.1), &interner),
    ];
    let plain = claim(&interner, &[]);
    let selection = chosen(&plain, &kinds);
    assert_eq!(names(&selection.types, &interner), ["m5.large"]);
    assert_eq!(selection.removed.len(), 1);
    assert_eq!(selection.removed[0].1.len(), 3);
    assert_eq!(chosen(&plain, &kinds[1..]).types.len(), 3);
    let mut with_min_values = plain.clone();
    let two = Requirement::exists(interner.intern("karpenter.k8s.aws/instance-family")).with_min_values(Some(2));
    with_min_values.requirements.replace(two);
    assert_eq!(chosen(&with_min_values, &kinds).types.len(), 4);
}

// AWS-239
#[test]
fn spot_that_costs_more_than_on_demand_is_left_out() {
    let interner = Interner::default();
    let class = class(json!({}));
    let of = |zone: &str, capacity_type: &str, price: f64| offering(&interner, zone, capacity_type, price);
    let kinds = [
        kind(
            "m5.large",
            &class,
            vec![of("a", "on-demand", 0.2), of("a", "spot", 0.05)],
            &interner,
        ),
        kind(
            "c5.large",
            &class,
            vec![of("a", "on-demand", 0.1), of("b", "spot", 0.1)],
            &interner,
        ),
        kind("r5.large", &class, vec![of("a", "spot", 0.11)], &interner),
    ];
    let both = claim(&interner, &[(CAPACITY_TYPE, &["on-demand", "spot"])]);
    assert_eq!(
        text(&chosen(&both, &kinds), &interner),
        ["m5.large: a/on-demand, a/spot", "c5.large: a/on-demand, b/spot"]
    );
    let spot = claim(&interner, &[(CAPACITY_TYPE, &["spot"])]);
    assert_eq!(
        names(&chosen(&spot, &kinds).types, &interner),
        ["m5.large", "c5.large", "r5.large"]
    );
}

// AWS-240, AWS-502
#[test]
fn the_sixty_cheapest_types_are_kept_and_ties_go_by_name() {
    let interner = Interner::default();
    let class = class(json!({}));
    let generic = kerf_aws::instance_type::builtin_types().values();
    let generic: Vec<&String> = generic
        .filter(|one| one.gpus.is_empty() && one.neuron.is_empty() && !one.name.contains("metal"))
        .map(|one| &one.name)
        .take(80)
        .collect();
    let mut kinds: Vec<InstanceType> = generic
        .iter()
        .map(|name| {
            kind(
                name,
                &class,
                vec![offering(&interner, "a", "on-demand", 0.1)],
                &interner,
            )
        })
        .collect();
    kinds.reverse();
    let mut claim = claim(&interner, &[]);
    let selection = chosen(&claim, &kinds);
    assert_eq!(selection.types.len(), TYPES_MAX);
    let want: Vec<String> = generic.iter().take(TYPES_MAX).map(|&name| name.clone()).collect();
    assert_eq!(names(&selection.types, &interner), want);
    let many = Requirement::exists(sym::INSTANCE_TYPE).with_min_values(Some(70));
    claim.requirements.replace(many);
    let error = select(&claim, kinds.clone(), MinValuesPolicy::Strict).unwrap_err();
    assert!(error.to_string().contains("truncating"), "{error}");
    assert!(select(&claim, kinds, MinValuesPolicy::BestEffort).is_ok());
}

// AWS-241, AWS-257
#[test]
fn reserved_comes_before_spot_and_spot_before_on_demand() {
    let interner = Interner::default();
    let class = class(json!({}));
    let mut spot = offering(&interner, "a", "spot", 0.05);
    let on_demand = offering(&interner, "a", "on-demand", 0.1);
    let block = reserved(&interner, "a", "cr-1", "default", 0.001, 5);
    let make = |offerings| vec![kind("m5.large", &class, offerings, &interner)];
    let any = claim(&interner, &[]);
    let no_reserved = claim(&interner, &[(CAPACITY_TYPE, &["on-demand", "spot"])]);
    let all = make(vec![on_demand.clone(), spot.clone(), block]);
    assert_eq!(capacity_type(&any, &all), CapacityType::Reserved);
    assert_eq!(capacity_type(&no_reserved, &all), CapacityType::Spot);
    // Spot without capacity: the next attempt is on demand.
    spot.available = false;
    assert_eq!(
        capacity_type(&no_reserved, &make(vec![on_demand, spot])),
        CapacityType::OnDemand
    );
}

// AWS-242
#[test]
fn dedicated_hardware_only_where_nothing_else_is_allowed() {
    let interner = Interner::default();
    let of = |values: &[&str]| tenancy(&claim(&interner, &[("karpenter.k8s.aws/instance-tenancy", values)]));
    assert_eq!(tenancy(&claim(&interner, &[])), Tenancy::Default);
    assert_eq!(of(&["default", "dedicated"]), Tenancy::Default);
    assert_eq!(of(&["dedicated"]), Tenancy::Dedicated);
}

// AWS-243
#[test]
fn few_types_for_a_fall_back_to_on_demand_are_worth_a_warning() {
    let interner = Interner::default();
    let both = claim(&interner, &[(CAPACITY_TYPE, &["on-demand", "spot"])]);
    let on_demand = claim(&interner, &[(CAPACITY_TYPE, &["on-demand"])]);
    assert!(is_risky_on_demand_fallback(&both, CapacityType::OnDemand, 4));
    assert!(!is_risky_on_demand_fallback(&both, CapacityType::OnDemand, 5));
    assert!(!is_risky_on_demand_fallback(&both, CapacityType::Spot, 1));
    assert!(!is_risky_on_demand_fallback(&on_demand, CapacityType::OnDemand, 1));
}
