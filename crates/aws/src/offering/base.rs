//! Offerings on demand and as spot (AWS-214 to AWS-216, AWS-220).

use super::inject::OfferingContext;
use super::unavailable::{CapacityType, GroupScope};
use crate::instance_type::{InstanceTypeDescription, UsageClass, ZoneView};
use crate::labels::{RESERVATION, ZONE_ID};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use std::collections::BTreeMap;

/// The requirements every offering has: zone, its id where the class has a subnet there, and capacity type.
pub(super) fn place(zone: &str, capacity_type: CapacityType, zones: &ZoneView, interner: &Interner) -> Requirements {
    let mut requirements = Requirements::new();
    let mut is = |key: Sym, value: &str| requirements.replace(Requirement::is(key, interner.intern(value)));
    is(sym::CAPACITY_TYPE, capacity_type.as_str());
    is(sym::ZONE, zone);
    if let Some(id) = zones.zone_id(zone) {
        is(interner.intern(ZONE_ID), id);
    }
    requirements
}

/// The requirements of an offering that is not reserved: its place, and that it has no labels of a reservation.
pub(super) fn unreserved(
    zone: &str,
    capacity_type: CapacityType,
    zones: &ZoneView,
    interner: &Interner,
) -> Requirements {
    let mut requirements = place(zone, capacity_type, zones, interner);
    for key in RESERVATION {
        requirements.replace(Requirement::does_not_exist(interner.intern(key)));
    }
    requirements
}

/// One offering for each zone and each of the capacity types on demand and spot. Zones without a subnet of the class have offerings too,
/// which are not available (AWS-480).
pub(super) fn base_offerings(
    description: &InstanceTypeDescription,
    kind: &InstanceType,
    zones: &ZoneView,
    places: &BTreeMap<(&str, CapacityType), Requirements>,
    context: &OfferingContext<'_>,
    is_compatible: bool,
) -> Vec<Offering> {
    let interner = context.interner;
    let own_zones = kind.requirements.get(sym::ZONE);
    let group = context.group.map(|group| GroupScope {
        id: group.id.clone(),
        partition: None,
    });
    let mut offerings = Vec::with_capacity(places.len());
    for zone in context.all_zones {
        let is_own = own_zones.is_some_and(|own| own.has(interner.intern(zone), interner));
        let is_shifted = zones
            .zone_id(zone)
            .is_some_and(|id| context.shifted_zone_ids.contains(id));
        for capacity_type in [CapacityType::OnDemand, CapacityType::Spot] {
            let class = match capacity_type {
                CapacityType::OnDemand => UsageClass::OnDemand,
                CapacityType::Spot | CapacityType::Reserved => UsageClass::Spot,
            };
            if !description.usage_classes.contains(&class) {
                continue;
            }
            let price = match capacity_type {
                CapacityType::OnDemand => context.prices.on_demand(&description.name),
                CapacityType::Spot | CapacityType::Reserved => context.prices.spot(&description.name, zone),
            };
            let price = price.or_else(|| context.overlay_prices.get(&description.name).copied());
            let is_unavailable = context.unavailable.is_unavailable(
                &description.name,
                zone,
                capacity_type,
                zones.subnets(zone),
                group.as_ref(),
                context.now,
            );
            let Some(requirements) = places.get(&(zone.as_str(), capacity_type)) else {
                continue;
            };
            offerings.push(Offering {
                requirements: requirements.clone(),
                price: price.unwrap_or(Price::ZERO),
                available: is_compatible && !is_unavailable && price.is_some() && is_own && !is_shifted,
                reservation: None,
                capacity_override: None,
                overhead_override: None,
            });
        }
    }
    offerings
}
