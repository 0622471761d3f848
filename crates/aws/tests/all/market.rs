//! Types with offerings, for the tests of launches.

use crate::class::resolved;
use kerf_api::EC2NodeClass;
use kerf_aws::labels::{RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE};
use kerf_aws::launch::LaunchClaim;
use kerf_cloud::plain_offering;
use kerf_model::instance_type::{InstanceType, Offering, Reservation};
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;

/// An offering in a zone of us-east-1 such as `a`.
pub(crate) fn offering(interner: &Interner, zone: &str, capacity_type: &str, price: f64) -> Offering {
    let price = Price::from_per_hour(price).unwrap();
    let zone = interner.intern(&format!("us-east-1{zone}"));
    plain_offering(zone, interner.intern(capacity_type), price)
}

/// A reserved offering of a kind: `default`, `capacity-block` or `interruptible`.
pub(crate) fn reserved(interner: &Interner, zone: &str, id: &str, kind: &str, price: f64, capacity: u32) -> Offering {
    let mut offering = offering(interner, zone, "reserved", price);
    let (reservation_type, interruptible) = match kind {
        "interruptible" => ("default", "true"),
        kind => (kind, "false"),
    };
    for (key, value) in [
        (RESERVATION_ID, id),
        (RESERVATION_TYPE, reservation_type),
        (RESERVATION_INTERRUPTIBLE, interruptible),
    ] {
        let requirement = Requirement::is(interner.intern(key), interner.intern(value));
        offering.requirements.replace(requirement);
    }
    offering.reservation = Some(Reservation {
        id: interner.intern(id),
        capacity,
    });
    offering
}

/// A built-in type with these offerings.
pub(crate) fn kind(name: &str, class: &EC2NodeClass, offerings: Vec<Offering>, interner: &Interner) -> InstanceType {
    let mut kind = resolved(name, class, interner);
    let types = ["on-demand", "spot", "reserved"].map(|name| interner.intern(name));
    kind.requirements
        .replace(Requirement::any_of(sym::CAPACITY_TYPE, types));
    for key in [RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE] {
        kind.requirements.remove(interner.intern(key));
    }
    kind.offerings = offerings;
    kind
}

/// A claim with these requirements, each a key and its values, and no requests.
pub(crate) fn claim<'a>(interner: &'a Interner, requirements: &[(&str, &[&str])]) -> LaunchClaim<'a> {
    let each = requirements.iter().map(|(key, values)| {
        Requirement::any_of(interner.intern(key), values.iter().map(|value| interner.intern(value)))
    });
    LaunchClaim::new(Requirements::from_all(each, interner), Resources::new(), interner)
}

/// The names of types.
pub(crate) fn names(kinds: &[InstanceType], interner: &Interner) -> Vec<String> {
    kinds.iter().map(|kind| interner.text(kind.name).to_owned()).collect()
}
