//! Sections 15.2 to 15.5: which domains exist, what is counted in them, and what several groups require together.

use kerf_testkit::fixture::{Fixture, check, upstream};

/// The number of placed pods per zone, and the number left over.
fn by_zone(text: &str) -> (Vec<(String, usize)>, usize) {
    let fixture = Fixture::read(text);
    let plan = fixture.solve(&upstream());
    let mut zones = std::collections::BTreeMap::new();
    for launch in &plan.launches {
        let zone = launch.requirements.get(kerf_model::intern::sym::ZONE);
        let zone = zone.and_then(kerf_model::requirement::Requirement::single);
        let zone = zone.map_or("open", |zone| fixture.snapshot.interner.text(zone));
        *zones.entry(zone.to_owned()).or_insert(0) += launch.pods.len();
    }
    (zones.into_iter().collect(), plan.unschedulable.len())
}

fn zones(of: &[(&str, usize)]) -> Vec<(String, usize)> {
    of.iter().map(|(zone, n)| ((*zone).to_owned(), *n)).collect()
}

const SPREAD: &str = "label=app=x spread=zone/1/app=x";

// SCH-195
#[test]
fn domains_are_what_pools_and_types_have_together() {
    let text = format!("type t cpu=2 mem=4Gi price=0.1\npool default req=zone:in:a,b\npod p*4 cpu=2 mem=1Gi {SPREAD}");
    assert_eq!(by_zone(&text), (zones(&[("a", 2), ("b", 2)]), 0));
}

// SCH-195, SCH-454
#[test]
fn a_zone_with_nothing_to_be_had_is_a_domain_all_the_same() {
    let text = format!(
        "type t cpu=2 mem=4Gi zones=a,b offer=on-demand/a/0.1 offer=on-demand/b/0.1 offer=on-demand/c/0.1/off
         pool default
         pod p*4 cpu=2 mem=1Gi {SPREAD}"
    );
    assert_eq!(by_zone(&text), (zones(&[("a", 1), ("b", 1)]), 2));
}

// SCH-196: upstream takes a value no type offers for a domain that stays empty for ever, and excluded values for domains.
#[test]
fn values_no_machine_can_have_are_no_domains() {
    let types = "type t cpu=2 mem=4Gi price=0.1 zones=a,b";
    let text = format!("{types}\npool default req=zone:in:a,b,z\npod p*4 cpu=2 mem=1Gi {SPREAD}");
    assert_eq!(by_zone(&text), (zones(&[("a", 2), ("b", 2)]), 0));
    check(
        &format!("{types}\npool default req=rack:notin:r1\npod p cpu=1 mem=1Gi label=app=x spread=rack/1/app=x"),
        "- p: unsatisfiable topology constraint for topology spread, key=rack (counts = , podDomains = rack Exists, \
         nodeDomains = rack NotIn [r1]",
    );
}

// SCH-199
#[test]
fn an_existing_node_opens_its_domain() {
    let text = format!(
        "type t cpu=2 mem=4Gi price=0.1 zones=a,b
         pool default
         node full cpu=0 mem=1Gi zone=d
         pod p*3 cpu=2 mem=1Gi {SPREAD}"
    );
    assert_eq!(by_zone(&text), (zones(&[("a", 1), ("b", 1)]), 1));
}

// SCH-200
#[test]
fn every_machine_is_a_hostname_of_its_own() {
    check(
        "type t cpu=8 mem=16Gi price=0.1
         pool default
         node n cpu=8 mem=16Gi
         pod p*3 cpu=1 mem=1Gi label=app=x spread=host/1/app=x",
        "default/t: p-1
         default/t: p-2
         n: p-0",
    );
}

// SCH-189
#[test]
fn a_group_counts_whom_it_selects_where_its_owner_could_be() {
    let cluster = |policy: &str| {
        format!(
            "type t cpu=2 mem=4Gi price=0.1 zones=a,b
             pool default
             node n cpu=1 mem=1Gi zone=a
             bound n x cpu=1 mem=1Gi label=app=x
             pod p cpu=2 mem=1Gi label=app=x select=arch:in:amd64 spread=zone/1/app=x{policy}
             pod other cpu=1 mem=1Gi label=app=y"
        )
    };
    // The bound pod is selected, but it is where the owner could not be.
    check(&cluster(""), "default/t a: p\ndefault/t: other");
    check(&cluster("/anynode"), "default/t b: p\ndefault/t: other");
}

// SCH-206: upstream counts a pod only once its machine has one value for the key; here a pod that a required spread counts gets one.
#[test]
fn a_pod_counts_from_its_placement_on() {
    check(
        "type t cpu=4 mem=8Gi price=0.1 zones=a,b
         pool default
         pod counted cpu=4 mem=1Gi label=app=x
         pod p cpu=3 mem=1Gi label=app=x spread=zone/1/app=x",
        "default/t a: counted
         default/t b: p",
    );
}

// SCH-207
#[test]
fn a_placed_pod_repels_from_where_it_will_be() {
    check(
        "type t cpu=4 mem=8Gi price=0.1 zones=a,b
         pool default
         pod lonely cpu=4 mem=1Gi apart=zone/app=web
         pod web cpu=3 mem=1Gi label=app=web",
        "default/t a: lonely
         default/t b: web",
    );
}

// SCH-208
#[test]
fn all_groups_hold_together() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         node na cpu=1 mem=1Gi zone=a
         node nb cpu=1 mem=1Gi zone=b
         bound na x cpu=1 mem=1Gi label=app=x
         bound nb y cpu=1 mem=1Gi label=app=y
         pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x apart=zone/app=y",
        "default/t c: p",
    );
}

// SCH-210
#[test]
fn counts_name_twenty_five_domains() {
    let values: Vec<String> = (10..40).map(|n| format!("v{n}")).collect();
    let text = format!(
        "type t cpu=2 mem=4Gi price=0.1
         pool default req=rack:in:{}
         pod p cpu=1 mem=1Gi label=app=x near=rack/app=y",
        values.join(",")
    );
    let plan = Fixture::read(&text).solve(&upstream());
    let counts: Vec<String> = values.iter().take(25).map(|value| format!("{value}: 0")).collect();
    let expected = format!(
        "unsatisfiable topology constraint for pod affinity, key=rack (counts = {} and 5 other(s), podDomains = rack Exists, \
         nodeDomains = rack In [v10 v11 v12 v13 v14 and 25 others]",
        counts.join(", ")
    );
    assert_eq!(plan.unschedulable[0].message(), expected);
}

// SCH-211
#[test]
fn topology_chooses_among_what_everything_else_leaves() {
    check(
        "type t cpu=2 mem=4Gi price=0.1
         pool default
         pod p cpu=2 mem=1Gi label=app=x spread=zone/1/app=x vol=v/ebs/zone:in:c
         pod q cpu=1 mem=1Gi label=app=y near=zone/app=y vol=w/ebs/zone:in:b",
        "default/t c: p
         default/t b: q",
    );
}
