//! Offerings on demand and as spot (AWS-214 to AWS-216, AWS-220).

use super::inject::OfferingContext;
use super::unavailable::{CapacityType, GroupScope};
use crate::instance_type::{InstanceTypeDescription, UsageClass, ZoneView};
use crate::labels::{RESERVATION, ZONE_ID};
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::NetworkInterface;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use std::collections::BTreeSet;

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

/// One offering for each zone and each of the capacity types on demand and spot. Zones without a subnet of the class have offerings too,
/// which are not available (AWS-480).
pub fn base_offerings(
    description: &InstanceTypeDescription,
    kind: &InstanceType,
    zones: &ZoneView,
    context: &OfferingContext<'_>,
    is_compatible: bool,
) -> Vec<Offering> {
    let interner = context.interner;
    let own_zones = kind.requirements.get(sym::ZONE);
    let group = context.group.map(|group| GroupScope {
        id: group.id.clone(),
        partition: None,
    });
    let mut offerings = Vec::new();
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
            let mut requirements = place(zone, capacity_type, zones, interner);
            for key in RESERVATION {
                requirements.replace(Requirement::does_not_exist(interner.intern(key)));
            }
            offerings.push(Offering {
                requirements,
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

/// What of a class and its surroundings the base offerings of a type depend on, besides the sequence number of the type. It has everything
/// that compatibility looks at (AWS-220, AWS-481).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferingKey {
    instance_type: String,
    zones: BTreeSet<(String, Option<String>, String)>,
    shifted_zone_ids: BTreeSet<String>,
    interfaces: Option<Vec<NetworkInterface>>,
    tracks_connections: bool,
    nested_virtualization: bool,
    family: kerf_api::AmiFamily,
    group: Option<String>,
}

impl OfferingKey {
    /// The key of a type for a class.
    pub fn new(
        instance_type: &str,
        class: &EC2NodeClass,
        shifted_zone_ids: &BTreeSet<String>,
        group: Option<&str>,
    ) -> Self {
        let mut interfaces = class.spec.network_interfaces.clone();
        interfaces.iter_mut().for_each(|interfaces| interfaces.sort());
        let subnets = class.status.subnets.iter();
        Self {
            instance_type: instance_type.to_owned(),
            zones: subnets
                .map(|subnet| (subnet.zone.clone(), subnet.zone_id.clone(), subnet.id.clone()))
                .collect(),
            shifted_zone_ids: shifted_zone_ids.clone(),
            interfaces,
            tracks_connections: class.spec.connection_tracking.is_some(),
            nested_virtualization: class.spec.wants_nested_virtualization(),
            family: class.spec.effective_family(),
            group: group.map(str::to_owned),
        }
    }
}
