//! Section 9.3: requirements and instance types.

use crate::fixture::Cluster;
use kerf_disruption::{instance_type_gone, requirements_drifted};
use kerf_model::instance_type::{Catalogue, Offering};
use kerf_model::intern::{Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};

fn labels(cluster: &Cluster, pairs: &[(&str, &str)]) -> Vec<(Sym, Sym)> {
    let mut labels: Vec<(Sym, Sym)> = pairs
        .iter()
        .map(|(key, value)| (cluster.s(key), cluster.s(value)))
        .collect();
    labels.sort_unstable();
    labels
}

// DIS-235, DIS-236
#[test]
fn requirements() {
    let cluster = Cluster::new();
    let s = |text: &str| cluster.s(text);
    let own = labels(&cluster, &[("team", "a"), ("gen", "3")]);
    let table = [
        ("holds", Requirement::any_of(s("team"), [s("a")]), false),
        ("wider", Requirement::any_of(s("team"), [s("a"), s("b")]), false),
        ("exists", Requirement::exists(s("team")), false),
        ("narrower", Requirement::any_of(s("team"), [s("b")]), true),
        ("excluded", Requirement::none_of(s("team"), [s("a")]), true),
        ("not excluded", Requirement::none_of(s("team"), [s("b")]), false),
        ("must not be", Requirement::does_not_exist(s("team")), true),
        ("new key", Requirement::any_of(s("other"), [s("a")]), true),
        ("new key must exist", Requirement::exists(s("other")), true),
        ("new key excluded", Requirement::none_of(s("other"), [s("a")]), false),
        ("new key must not be", Requirement::does_not_exist(s("other")), false),
        (
            "well-known keys are no exception",
            Requirement::is(sym::ZONE, s("z")),
            true,
        ),
        ("greater", Requirement::greater(s("gen"), 2), false),
        ("not greater", Requirement::greater(s("gen"), 3), true),
        ("at least", Requirement::between(s("gen"), Some(3), None), false),
        ("less", Requirement::less(s("gen"), 3), true),
        ("at most", Requirement::between(s("gen"), None, Some(3)), false),
    ];
    for (what, requirement, drifted) in table {
        let template = Requirements::from_all([requirement], &cluster.snapshot.interner);
        assert_eq!(
            requirements_drifted(&own, &template, &cluster.snapshot.interner),
            drifted,
            "{what}"
        );
    }
}

const PLACE: [(&str, &str); 3] = [
    ("node.kubernetes.io/instance-type", "small"),
    ("topology.kubernetes.io/zone", "z"),
    ("karpenter.sh/capacity-type", "on-demand"),
];

fn gone(cluster: &Cluster, types: Vec<kerf_model::instance_type::InstanceType>, pairs: &[(&str, &str)]) -> bool {
    let well_known = |key: Sym| cluster.snapshot.is_well_known(key);
    let reservation = Some(cluster.s("reservation-id"));
    instance_type_gone(
        &labels(cluster, pairs),
        &Catalogue { types },
        reservation,
        &well_known,
        &cluster.snapshot.interner,
    )
}

// DIS-237
#[test]
fn a_type_or_offering_that_is_no_more() {
    let cluster = Cluster::new();
    let small = || cluster.kind("small", 2000, 0.1);
    assert!(!gone(&cluster, vec![small()], &PLACE));
    let mut unavailable = small();
    unavailable
        .offerings
        .iter_mut()
        .for_each(|offering| offering.available = false);
    assert!(!gone(&cluster, vec![unavailable], &PLACE), "available or not");
    assert!(gone(&cluster, vec![cluster.kind("large", 1, 1.0)], &PLACE));
    assert!(gone(&cluster, vec![small()], &PLACE[1..]), "no type label");
    let elsewhere = [PLACE[0], ("topology.kubernetes.io/zone", "y"), PLACE[2]];
    assert!(gone(&cluster, vec![small()], &elsewhere));
    assert!(
        !gone(&cluster, vec![small()], &PLACE[..1]),
        "labels not known yet restrict nothing"
    );
}

// DIS-238
#[test]
fn reserved_capacity_may_become_on_demand() {
    let cluster = Cluster::new();
    let place = [
        PLACE[0],
        PLACE[1],
        ("karpenter.sh/capacity-type", "reserved"),
        ("reservation-id", "r-1"),
    ];
    let only = |capacity: Option<Sym>, reservation: Option<&str>| {
        let mut kind = cluster.kind("small", 2000, 0.1);
        kind.offerings = kind.offerings.into_iter().take(1).collect::<Vec<Offering>>();
        match capacity {
            Some(capacity) => {
                let requirements = &mut kind.offerings[0].requirements;
                requirements.replace(Requirement::is(sym::CAPACITY_TYPE, capacity));
                if let Some(id) = reservation {
                    requirements.replace(Requirement::is(cluster.s("reservation-id"), cluster.s(id)));
                }
            }
            None => kind.offerings.clear(),
        }
        gone(&cluster, vec![kind], &place)
    };
    assert!(!only(Some(sym::ON_DEMAND), None));
    assert!(!only(Some(sym::RESERVED), Some("r-1")));
    assert!(!only(Some(sym::RESERVED), Some("r-2")), "reservations do not count");
    assert!(only(Some(sym::SPOT), None));
    assert!(only(None, None));
}
