//! Offerings on demand and as spot (AWS-214 to AWS-216, AWS-220).

use super::inject::OfferingContext;
use super::unavailable::{CapacityType, GroupScope};
use crate::instance_type::{InstanceTypeDescription, UsageClass, ZoneView};
use crate::labels::{RESERVATION, ZONE_ID};
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};

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

/// A zone with a capacity type: what offerings of all types have in common there.
pub(super) struct OfferingPlace<'a> {
    zone: &'a str,
    zone_key: Sym,
    capacity_type: CapacityType,
    /// Whether traffic is shifted away from the zone.
    is_shifted: bool,
    /// The place, and that an offering has no labels of a reservation.
    requirements: Requirements,
}

impl<'a> OfferingPlace<'a> {
    /// Every zone in which any type is offered, on demand and as spot.
    pub(super) fn all(zones: &ZoneView, context: &OfferingContext<'a>) -> Vec<Self> {
        let interner = context.interner;
        let of = |zone: &'a str, capacity_type| {
            let mut requirements = place(zone, capacity_type, zones, interner);
            for key in RESERVATION {
                requirements.replace(Requirement::does_not_exist(interner.intern(key)));
            }
            Self {
                zone,
                zone_key: interner.intern(zone),
                capacity_type,
                is_shifted: is_shifted(zone, zones, context),
                requirements,
            }
        };
        let types = [CapacityType::OnDemand, CapacityType::Spot];
        let places = context.all_zones.iter().flat_map(|zone| types.map(|one| of(zone, one)));
        places.collect()
    }
}

/// Whether traffic is shifted away from a zone in which the class has a subnet.
pub(super) fn is_shifted(zone: &str, zones: &ZoneView, context: &OfferingContext<'_>) -> bool {
    let id = zones.zone_id(zone);
    id.is_some_and(|id| context.shifted_zone_ids.contains(id))
}

/// One offering for each place whose capacity type the type has. Zones without a subnet of the class have offerings too, which are not
/// available (AWS-480).
pub(super) fn base_offerings(
    description: &InstanceTypeDescription,
    kind: &InstanceType,
    zones: &ZoneView,
    places: &[OfferingPlace<'_>],
    context: &OfferingContext<'_>,
    is_compatible: bool,
) -> Vec<Offering> {
    let own_zones = kind.requirements.get(sym::ZONE);
    let group = context.group.map(|group| GroupScope {
        id: group.id.clone(),
        partition: None,
    });
    let prices = context.prices.of_type(&description.name);
    let mut offerings = Vec::with_capacity(places.len());
    for place in places {
        let (class, price) = match place.capacity_type {
            CapacityType::OnDemand => (UsageClass::OnDemand, prices.on_demand()),
            CapacityType::Spot | CapacityType::Reserved => (UsageClass::Spot, prices.spot(place.zone)),
        };
        if !description.usage_classes.contains(&class) {
            continue;
        }
        let price = price.or_else(|| context.overlay_prices.get(&description.name).copied());
        let is_own = own_zones.is_some_and(|own| own.has(place.zone_key, context.interner));
        let is_unavailable = context.unavailable.is_unavailable(
            &description.name,
            place.zone,
            place.capacity_type,
            zones.subnets(place.zone),
            group.as_ref(),
            context.now,
        );
        offerings.push(Offering {
            requirements: place.requirements.clone(),
            price: price.unwrap_or(Price::ZERO),
            available: is_compatible && !is_unavailable && price.is_some() && is_own && !place.is_shifted,
            reservation: None,
            capacity_override: None,
            overhead_override: None,
        });
    }
    offerings
}
