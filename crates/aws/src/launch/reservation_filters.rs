//! Filters about capacity reservations: a fleet request can use one kind of them, one block, and one reservation for each type and zone
//! (AWS-235 to AWS-237, AWS-487).

use super::claim::LaunchClaim;
use crate::labels::{RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, sym};
use kerf_model::price::Price;
use std::collections::BTreeMap;

/// A kind of reservation, in the order in which kinds of equal price are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Default,
    CapacityBlock,
    Interruptible,
}

/// The kind of an offering; `None` for offerings without reservation, and for kinds that do not exist.
fn kind_of(offering: &Offering, interner: &Interner) -> Option<Kind> {
    let text = |key: &str| offering.value(interner.intern(key)).map(|value| interner.text(value));
    if offering.capacity_type() != Some(sym::RESERVED) {
        return None;
    }
    match (text(RESERVATION_TYPE)?, text(RESERVATION_INTERRUPTIBLE) == Some("true")) {
        ("default", false) => Some(Kind::Default),
        ("default", true) => Some(Kind::Interruptible),
        ("capacity-block", _) => Some(Kind::CapacityBlock),
        _ => None,
    }
}

fn admits_reserved(claim: &LaunchClaim<'_>) -> bool {
    claim.admits(sym::CAPACITY_TYPE, sym::RESERVED)
}

/// Keeps the kind of reservation with the cheapest offering, and of the types that have it the offerings of that kind alone.
pub(super) fn reservation_type(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    if !admits_reserved(claim) {
        return types;
    }
    let interner = claim.interner();
    let usable = types.iter().flat_map(|kind| claim.usable(kind));
    let kinds = usable.filter_map(|offering| Some((offering.price, kind_of(offering, interner)?)));
    let Some((_, chosen)) = kinds.min() else { return types };
    let has = |kind: &InstanceType| {
        let usable = claim.usable(kind);
        usable
            .iter()
            .any(|offering| kind_of(offering, interner) == Some(chosen))
    };
    let mut left: Vec<InstanceType> = types.into_iter().filter(has).collect();
    for kind in &mut left {
        kind.offerings
            .retain(|offering| kind_of(offering, interner) == Some(chosen));
    }
    left
}

/// Keeps one type with one offering, the cheapest, if the launch is from capacity blocks.
pub(super) fn capacity_block(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    let interner = claim.interner();
    let kinds = types.iter().flat_map(|kind| &kind.offerings);
    let first = kinds.filter_map(|offering| kind_of(offering, interner)).next();
    if !admits_reserved(claim) || first != Some(Kind::CapacityBlock) {
        return types;
    }
    let block = |kind: &InstanceType| -> Option<(Price, Offering)> {
        let usable = claim.usable(kind).into_iter();
        let blocks = usable.filter(|offering| kind_of(offering, interner) == Some(Kind::CapacityBlock));
        let cheapest = blocks.min_by_key(|offering| offering.price)?;
        Some((cheapest.price, cheapest.clone()))
    };
    let candidates = types.into_iter().filter_map(|kind| Some((block(&kind)?, kind)));
    let name = |kind: &InstanceType| interner.text(kind.name).to_owned();
    let chosen = candidates.min_by_key(|((price, _), kind)| (*price, name(kind)));
    chosen
        .map(|((_, offering), mut kind)| {
            kind.offerings = vec![offering];
            kind
        })
        .into_iter()
        .collect()
}

/// Keeps for each type and zone the reservation with most capacity. Without any reservation left nothing is removed.
pub(super) fn reserved_offering(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    if !admits_reserved(claim) {
        return types;
    }
    let largest = |kind: &InstanceType| -> Vec<Offering> {
        let mut by_zone: BTreeMap<_, &Offering> = BTreeMap::new();
        let capacity = |offering: &Offering| offering.reservation.map_or(0, |reservation| reservation.capacity);
        for offering in claim.usable(kind) {
            if offering.capacity_type() != Some(sym::RESERVED) {
                continue;
            }
            let kept = by_zone.entry(offering.zone()).or_insert(offering);
            if capacity(offering) > capacity(kept) {
                *kept = offering;
            }
        }
        by_zone.into_values().cloned().collect()
    };
    let left: Vec<InstanceType> = types
        .iter()
        .filter_map(|kind| {
            let offerings = largest(kind);
            (!offerings.is_empty()).then(|| InstanceType {
                offerings,
                ..kind.clone()
            })
        })
        .collect();
    if left.is_empty() { types } else { left }
}
