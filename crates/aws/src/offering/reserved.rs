//! Offerings from capacity reservations (AWS-217).

use super::base::{is_shifted, place};
use super::inject::OfferingContext;
use super::unavailable::CapacityType;
use crate::instance_type::ZoneView;
use crate::labels::{RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE};
use kerf_api::ec2_node_class::NodeClassReservation;
use kerf_model::instance_type::{InstanceType, Offering, Reservation};
use kerf_model::intern::sym;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;

/// Reserved capacity is paid for already. A price far below every other one makes it the first choice, and keeps the order of types.
const PRICE_DIVISOR: i64 = 10_000_000;

/// One offering for each reservation of the type.
pub(super) fn reserved_offerings(
    name: &str,
    kind: &InstanceType,
    reservations: &[NodeClassReservation],
    zones: &ZoneView,
    context: &OfferingContext<'_>,
    is_compatible: bool,
) -> Vec<Offering> {
    let interner = context.interner;
    let on_demand = context.prices.on_demand(name).unwrap_or(Price::ZERO);
    let price = Price::from_pico(on_demand.pico() / PRICE_DIVISOR);
    let own_zones = kind.requirements.get(sym::ZONE);
    let of_type = reservations
        .iter()
        .filter(|reservation| reservation.instance_type == name);
    let offering = |reservation: &NodeClassReservation| {
        let zone = reservation.availability_zone.as_str();
        let left = context.reservation_counts.get(&reservation.id).copied().unwrap_or(0);
        let is_own = own_zones.is_some_and(|own| own.has(interner.intern(zone), interner));
        let is_expiring = reservation.state == "expiring";
        let mut requirements = place(zone, CapacityType::Reserved, zones, interner);
        let id = interner.intern(&reservation.id);
        for (key, value) in [
            (RESERVATION_ID, id),
            (RESERVATION_TYPE, interner.intern(&reservation.reservation_type)),
            (
                RESERVATION_INTERRUPTIBLE,
                interner.intern(if reservation.interruptible { "true" } else { "false" }),
            ),
        ] {
            requirements.replace(Requirement::is(interner.intern(key), value));
        }
        Offering {
            requirements,
            price,
            available: is_compatible && left > 0 && is_own && !is_shifted(zone, zones, context) && !is_expiring,
            reservation: Some(Reservation { id, capacity: left }),
            capacity_override: None,
            overhead_override: None,
        }
    };
    of_type.map(offering).collect()
}
