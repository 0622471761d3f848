//! The instance types and offerings of a launch: filters in a fixed order, then the cheapest types (AWS-233, AWS-234, AWS-240).

use super::claim::LaunchClaim;
use super::price_filters::{exotic, spot_price};
use super::reservation_filters::{capacity_block, reservation_type, reserved_offering};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use kerf_units::policy::MinValuesPolicy;
use std::collections::BTreeSet;

/// Most instance types of one launch: EC2 limits the size of a fleet request.
pub const TYPES_MAX: usize = 60;
/// Names that a log line about filtered types has at most.
const NAMES_LOGGED: usize = 5;

/// Why nothing is left to launch. Both mean insufficient capacity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoneLeft {
    /// No type has an offering the claim allows.
    #[error("all requested instance types were unavailable during launch")]
    Unavailable,
    /// The cheapest types do not cover the values the claim asks for.
    #[error("truncating instance types to {TYPES_MAX}: minValues requirement is not met for {key}")]
    MinValues {
        /// The label.
        key: String,
    },
}

/// What is left to launch.
#[derive(Clone, Debug)]
pub struct Selection {
    /// The types with the offerings that are left of them, the cheapest first.
    pub types: Vec<InstanceType>,
    /// By filter, the names of some types it removed.
    pub removed: Vec<(&'static str, Vec<String>)>,
}

/// A filter: takes types and gives those that stay.
pub(super) type Filter = fn(&LaunchClaim<'_>, Vec<InstanceType>) -> Vec<InstanceType>;

/// Runs all filters over the types, orders what is left by price, and cuts it.
pub fn select(
    claim: &LaunchClaim<'_>,
    types: Vec<InstanceType>,
    policy: MinValuesPolicy,
) -> Result<Selection, NoneLeft> {
    let filters: [(&'static str, Filter); 6] = [
        ("compatible-available-filter", compatible_available),
        ("capacity-reservation-type-filter", reservation_type),
        ("capacity-block-filter", capacity_block),
        ("reserved-offering-filter", reserved_offering),
        ("exotic-instance-filter", exotic),
        ("spot-offering-filter", spot_price),
    ];
    let mut types = types;
    let mut removed = Vec::new();
    for (at, (name, filter)) in filters.into_iter().enumerate() {
        let before: Vec<_> = types.iter().map(|kind| kind.name).collect();
        types = filter(claim, types);
        if types.is_empty() {
            return Err(NoneLeft::Unavailable);
        }
        let left: BTreeSet<_> = types.iter().map(|kind| kind.name).collect();
        let gone = before.into_iter().filter(|name| !left.contains(name));
        let gone: Vec<String> = gone
            .map(|name| claim.interner().text(name).to_owned())
            .take(NAMES_LOGGED)
            .collect();
        // The first filter removes types in every launch.
        if at > 0 && !gone.is_empty() {
            removed.push((name, gone));
        }
    }
    order(claim, &mut types);
    types.truncate(TYPES_MAX);
    if policy == MinValuesPolicy::Strict {
        check_min_values(claim, &types)?;
    }
    Ok(Selection { types, removed })
}

/// Types the claim allows that have an available offering on which its requests fit. Offerings whose capacity or overhead differs are
/// judged by their own.
fn compatible_available(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    let fits = |kind: &InstanceType, offering: &Offering| claim.requests.fits(&room(claim, kind, offering));
    let stays =
        |kind: &InstanceType| claim.allows(kind) && claim.usable(kind).into_iter().any(|offering| fits(kind, offering));
    types.into_iter().filter(stays).collect()
}

/// What pods can use of a node with this offering.
fn room(claim: &LaunchClaim<'_>, kind: &InstanceType, offering: &Offering) -> Resources {
    kind.allocatable_of(offering, |name| claim.interner().text(name).starts_with("hugepages-"))
}

/// The price of the cheapest offering the claim allows.
fn cheapest(claim: &LaunchClaim<'_>, kind: &InstanceType) -> Price {
    let prices = claim.usable(kind).into_iter().map(|offering| offering.price);
    prices.min().unwrap_or(Price::MAX)
}

/// Orders by price, and types of equal price by name (AWS-502).
fn order(claim: &LaunchClaim<'_>, types: &mut [InstanceType]) {
    types.sort_by_cached_key(|kind| (cheapest(claim, kind), claim.interner().text(kind.name).to_owned()));
}

fn check_min_values(claim: &LaunchClaim<'_>, types: &[InstanceType]) -> Result<(), NoneLeft> {
    let interner = claim.interner();
    for requirement in &claim.requirements {
        let Some(least) = requirement.min_values else { continue };
        let values: BTreeSet<_> = types
            .iter()
            .filter_map(|kind| kind.requirements.get(requirement.key))
            .filter(|offered| !offered.complement)
            .flat_map(|offered| offered.values.iter().copied())
            .filter(|value| requirement.has(*value, interner))
            .collect();
        if values.len() < usize::try_from(least).unwrap_or(usize::MAX) {
            return Err(NoneLeft::MinValues {
                key: interner.text(requirement.key).to_owned(),
            });
        }
    }
    Ok(())
}
