//! The CreateFleet request (AWS-244 to AWS-250).

use super::claim::LaunchClaim;
use crate::labels::RESERVATION_ID;
use crate::offering::CapacityType;
use crate::tags::Tags;
use kerf_api::annotations::{MIN_VALUES_RELAXED, PRICE_OVERLAY_APPLIED, TRUE};
use kerf_model::instance_type::InstanceType;
use kerf_model::price::Price;
use std::collections::{BTreeMap, BTreeSet};

/// One way in which the fleet may launch the instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FleetOverride {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
    /// Subnet; not sent where the template names it.
    pub subnet_id: Option<String>,
    /// Image.
    pub image_id: String,
    /// The price, which counts as priority where the allocation strategy uses priorities.
    pub priority: Price,
}

/// A launch template with its overrides. The newest version of the template is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetConfig {
    /// Name of the template.
    pub template_name: String,
    /// Ways to launch with it; never empty in a request.
    pub overrides: Vec<FleetOverride>,
}

/// What the one instance of a request counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetCapacity {
    /// Spot.
    Spot,
    /// On demand; also ordinary reservations.
    OnDemand,
    /// A capacity block.
    CapacityBlock,
    /// An interruptible reservation.
    ReservedCapacity,
}

impl TargetCapacity {
    /// EC2's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Spot => "spot",
            Self::OnDemand => "on-demand",
            Self::CapacityBlock => "capacity-block",
            Self::ReservedCapacity => "reserved-capacity",
        }
    }
}

/// How EC2 chooses among the overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AllocationStrategy {
    /// Spot: pools with spare capacity, then low prices.
    PriceCapacityOptimized,
    /// Spot: pools with spare capacity, then the priorities.
    CapacityOptimizedPrioritized,
    /// On demand: the lowest price.
    LowestPrice,
    /// On demand: the priorities.
    Prioritized,
    /// Interruptible reservations have no strategy, but must be asked for.
    InterruptibleReservation,
    /// Capacity blocks have no options at all.
    None,
}

/// Tags of one kind of resource.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetTagSpecification {
    /// Kind of resource.
    pub resource: &'static str,
    /// Its tags.
    pub tags: Tags,
}

/// A CreateFleet request of type `instant` for one instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FleetRequest {
    /// Templates with their overrides.
    pub configs: Vec<FleetConfig>,
    /// What the instance counts as.
    pub target: TargetCapacity,
    /// How EC2 chooses.
    pub strategy: AllocationStrategy,
    /// Tags of instance, volumes and fleet, in this order.
    pub tags: Vec<FleetTagSpecification>,
    /// The class's context.
    pub context: Option<String>,
}

/// What a request is made from.
#[derive(Clone, Debug)]
pub struct FleetInput<'a> {
    /// The claim.
    pub claim: &'a LaunchClaim<'a>,
    /// How the instance is bought.
    pub capacity_type: CapacityType,
    /// `default` or `capacity-block`, in a reserved launch.
    pub reservation_type: Option<&'a str>,
    /// Whether EC2 may take the reservation's instances back.
    pub interruptible: bool,
    /// Templates with their overrides.
    pub configs: Vec<FleetConfig>,
    /// Tags of everything the launch creates.
    pub tags: Tags,
    /// The class's context.
    pub context: Option<&'a str>,
}

/// The request; `None` if no template has an override.
pub fn fleet_request(input: &FleetInput<'_>) -> Option<FleetRequest> {
    let configs: Vec<FleetConfig> = input
        .configs
        .iter()
        .filter(|config| !config.overrides.is_empty())
        .cloned()
        .collect();
    if configs.is_empty() {
        return None;
    }
    let annotations = &input.claim.annotations;
    let is_overlaid = annotations.contains_key(PRICE_OVERLAY_APPLIED);
    let is_relaxed = annotations.get(MIN_VALUES_RELAXED).is_some_and(|value| value == TRUE);
    let is_block = input.reservation_type == Some("capacity-block");
    let (target, strategy) = match input.capacity_type {
        CapacityType::Spot if is_overlaid => (TargetCapacity::Spot, AllocationStrategy::CapacityOptimizedPrioritized),
        CapacityType::Spot => (TargetCapacity::Spot, AllocationStrategy::PriceCapacityOptimized),
        CapacityType::Reserved if is_block => (TargetCapacity::CapacityBlock, AllocationStrategy::None),
        CapacityType::Reserved if input.interruptible => (
            TargetCapacity::ReservedCapacity,
            AllocationStrategy::InterruptibleReservation,
        ),
        CapacityType::OnDemand | CapacityType::Reserved if is_overlaid => {
            (TargetCapacity::OnDemand, AllocationStrategy::Prioritized)
        }
        CapacityType::OnDemand | CapacityType::Reserved => (TargetCapacity::OnDemand, AllocationStrategy::LowestPrice),
    };
    let tags = ["instance", "volume", "fleet"].map(|resource| FleetTagSpecification {
        resource,
        tags: input.tags.clone(),
    });
    Some(FleetRequest {
        configs,
        target,
        strategy,
        tags: tags.into(),
        context: input.context.filter(|_| !is_relaxed).map(str::to_owned),
    })
}

/// The overrides of a template: each type in each zone where the claim allows an available offering and a subnet was chosen. A template for
/// a reservation has the offerings of that reservation alone. Offerings that differ in their partition alone count once, since the template
/// names the partition. `in_zone` is set for a template that belongs to one zone and names the subnet itself (AWS-249).
pub fn overrides(
    claim: &LaunchClaim<'_>,
    kinds: &[&InstanceType],
    subnets: &BTreeMap<String, String>,
    image_id: &str,
    capacity_type: CapacityType,
    reservation_id: Option<&str>,
    in_zone: Option<&str>,
) -> Vec<FleetOverride> {
    let interner = claim.interner();
    let pinned = claim.pinned(capacity_type);
    let id_key = interner.intern(RESERVATION_ID);
    let mut seen: BTreeSet<(&str, &str)> = BTreeSet::new();
    let mut overrides = Vec::new();
    for kind in kinds {
        let name = interner.text(kind.name);
        for offering in pinned.usable(kind) {
            let is_of_reservation = |wanted: &str| {
                let id = offering.value(id_key).map(|id| interner.text(id));
                id == Some(wanted)
            };
            let zone = offering.zone().map(|zone| interner.text(zone)).unwrap_or_default();
            let Some(subnet) = subnets.get(zone) else { continue };
            let is_in_zone = in_zone.is_none_or(|wanted| wanted == zone);
            if !reservation_id.is_none_or(is_of_reservation) || !is_in_zone || !seen.insert((name, zone)) {
                continue;
            }
            overrides.push(FleetOverride {
                instance_type: name.to_owned(),
                zone: zone.to_owned(),
                subnet_id: in_zone.is_none().then(|| subnet.clone()),
                image_id: image_id.to_owned(),
                priority: offering.price,
            });
        }
    }
    overrides
}
