//! Filters about special machines and dear spot offerings (AWS-238, AWS-239).

use super::claim::LaunchClaim;
use crate::labels::SIZE;
use crate::resources::EXOTIC;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::sym;
use kerf_model::requirement::Requirement;

/// Removes bare metal and machines with GPUs or accelerators, unless nothing else is left. Claims that need such a machine have no other
/// types here.
pub(super) fn exotic(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    if claim.requirements.has_min_values() {
        return types;
    }
    let interner = claim.interner();
    let size = interner.intern(SIZE);
    let resources = EXOTIC.map(|name| interner.intern(name));
    let is_exotic = |kind: &InstanceType| {
        let single = kind.requirements.get(size).and_then(Requirement::single);
        let is_metal = single.is_some_and(|size| interner.text(size).contains("metal"));
        is_metal || resources.iter().any(|name| kind.capacity.get(*name) > 0)
    };
    if types.iter().all(is_exotic) {
        return types;
    }
    types.into_iter().filter(|kind| !is_exotic(kind)).collect()
}

/// Removes spot offerings that are dearer than the cheapest on-demand offering of a claim that allows both.
pub(super) fn spot_price(claim: &LaunchClaim<'_>, types: Vec<InstanceType>) -> Vec<InstanceType> {
    let asks_for = |value| {
        let requirement = claim.requirements.get(sym::CAPACITY_TYPE);
        requirement.is_none_or(|requirement| requirement.has(value, claim.interner()))
    };
    if claim.requirements.has_min_values() || !asks_for(sym::SPOT) || !asks_for(sym::ON_DEMAND) {
        return types;
    }
    let is_spot = |offering: &Offering| offering.capacity_type() == Some(sym::SPOT);
    let usable: Vec<&Offering> = types.iter().flat_map(|kind| claim.usable(kind)).collect();
    let on_demand = usable
        .iter()
        .filter(|offering| offering.capacity_type() == Some(sym::ON_DEMAND));
    let Some(limit) = on_demand.map(|offering| offering.price).min() else {
        return types;
    };
    if !usable.iter().any(|offering| is_spot(offering)) {
        return types;
    }
    let mut types = types;
    for kind in &mut types {
        kind.offerings
            .retain(|offering| !is_spot(offering) || offering.price <= limit);
    }
    types.retain(|kind| !kind.offerings.is_empty());
    types
}
