//! All offerings of a type for a class.

use super::base::{OfferingPlace, base_offerings};
use super::partitions::expand_partitions;
use super::reserved::reserved_offerings;
use super::unavailable::UnavailableOfferings;
use crate::instance_type::{InstanceTypeDescription, ZoneView, incompatibility};
use crate::placement_group::PlacementGroup;
use crate::pricing::PriceBook;
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use std::collections::{BTreeMap, BTreeSet};

/// What offerings depend on besides the type and the class.
#[derive(Clone, Copy, Debug)]
pub struct OfferingContext<'a> {
    /// Every zone in which any type is offered.
    pub all_zones: &'a BTreeSet<String>,
    /// Prices.
    pub prices: &'a PriceBook,
    /// Prices that node overlays give types without one, by type (AWS-216).
    pub overlay_prices: &'a BTreeMap<String, Price>,
    /// What had no capacity.
    pub unavailable: &'a UnavailableOfferings,
    /// Instances left in capacity reservations, by id.
    pub reservation_counts: &'a BTreeMap<String, u32>,
    /// Ids of zones that traffic is shifted away from.
    pub shifted_zone_ids: &'a BTreeSet<String>,
    /// The class's placement group.
    pub group: Option<&'a PlacementGroup>,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// Time of the decision.
    pub now: Timestamp,
    /// Names.
    pub interner: &'a Interner,
}

/// Gives the resolved types of a class their offerings. What all types have in common is computed once, and shared by their offerings.
pub struct OfferingsOfClass<'a> {
    class: &'a EC2NodeClass,
    context: &'a OfferingContext<'a>,
    zones: ZoneView,
    places: Vec<OfferingPlace<'a>>,
}

impl<'a> OfferingsOfClass<'a> {
    /// The offerings of a class.
    pub fn new(class: &'a EC2NodeClass, context: &'a OfferingContext<'a>) -> Self {
        let zones = ZoneView::new(&class.status.subnets);
        Self {
            class,
            context,
            places: OfferingPlace::all(&zones, context),
            zones,
        }
    }

    /// Puts the offerings onto a type.
    pub fn inject(&self, kind: &mut InstanceType, description: &InstanceTypeDescription) {
        let Self {
            class,
            context,
            zones,
            places,
        } = self;
        let family = class.spec.effective_family();
        let is_compatible = incompatibility(description, &class.spec, family, context.group).is_none();
        kind.offerings = base_offerings(description, kind, zones, places, context, is_compatible);
        if context.reserved_capacity {
            let reservations = &class.status.capacity_reservations;
            let reserved = reserved_offerings(&description.name, kind, reservations, zones, context, is_compatible);
            kind.offerings.extend(reserved);
        }
        if let Some(group) = context.group {
            expand_partitions(kind, group, context);
        }
    }
}
