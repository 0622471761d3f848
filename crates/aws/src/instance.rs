//! Instances as EC2 describes them (section 15 of `docs/behaviour/aws.md`).

use crate::instance_end::StateReason;
use crate::labels::{
    RESERVATION, RESERVATION_ID, RESERVATION_INTERRUPTIBLE, RESERVATION_TYPE, TENANCY, TENANCY_DEFAULT, ZONE_ID,
};
use crate::offering::CapacityType;
use crate::provider_id::provider_id;
use crate::resources::EFA;
use crate::selector::{Filter, Query};
use crate::tags::{self, Tags};
use jiff::Timestamp;
use kerf_api::ec2_node_class::EC2NodeClassStatus;
use kerf_api::labels as core_labels;
use kerf_api::resources as core_names;
use kerf_cloud::Launched;
use kerf_model::instance_type::{InstanceType, allocatable};
use kerf_model::intern::Interner;
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;
use std::collections::{BTreeMap, BTreeSet};

/// States in which an instance counts as existing; a terminated one does not (AWS-258).
pub const LIVE_STATES: [&str; 5] = ["pending", "running", "stopping", "stopped", "shutting-down"];

/// An instance as EC2 describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedInstance {
    /// Id.
    pub id: String,
    /// State.
    pub state: String,
    /// The reason of its state, if EC2 gives one.
    pub state_reason: Option<StateReason>,
    /// Instance type.
    pub instance_type: String,
    /// Image.
    pub image_id: String,
    /// Zone.
    pub zone: String,
    /// Id of the zone, where EC2 says it.
    pub zone_id: Option<String>,
    /// When it was launched.
    pub launched: Timestamp,
    /// Tags.
    pub tags: Tags,
    /// Request that a spot instance came from.
    pub spot_request_id: Option<String>,
    /// `spot`, `capacity-block` or `interruptible-capacity-reservation`; empty for others.
    pub lifecycle: String,
    /// Reservation it runs in.
    pub reservation_id: Option<String>,
    /// Which reservations its template allows.
    pub reservation_preference: Option<String>,
    /// Tenancy; empty for shared hardware.
    pub tenancy: String,
    /// Types of its network interfaces.
    pub interface_types: Vec<String>,
    /// Partition of its placement group; zero for none.
    pub partition: u32,
    /// Subnet; empty for an instance that has none any more.
    pub subnet_id: String,
    /// Ids of its security groups.
    pub security_group_ids: BTreeSet<String>,
}

/// The reservation an instance was launched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceReservation {
    /// Id.
    pub id: String,
    /// `default` or `capacity-block`.
    pub reservation_type: &'static str,
    /// Whether EC2 may take the instance back.
    pub interruptible: bool,
}

/// An instance as the provider sees it (AWS-261).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// What EC2 said.
    pub described: DescribedInstance,
    /// How it was bought. An instance in an open reservation counts as on demand (AWS-489).
    pub capacity_type: CapacityType,
    /// The reservation, for reserved instances.
    pub reservation: Option<InstanceReservation>,
    /// Tenancy.
    pub tenancy: String,
    /// Number of EFA interfaces.
    pub efa_count: i64,
    /// Partition of its placement group.
    pub partition: Option<u32>,
}

impl Instance {
    /// Reads a description.
    pub fn new(described: DescribedInstance, reserved_capacity: bool) -> Self {
        let is_pinned = described.reservation_preference.as_deref() == Some("capacity-reservations-only");
        let reservation = described
            .reservation_id
            .clone()
            .filter(|_| reserved_capacity && is_pinned)
            .map(|id| InstanceReservation {
                id,
                reservation_type: match described.lifecycle.as_str() {
                    "capacity-block" => "capacity-block",
                    _ => "default",
                },
                interruptible: described.lifecycle == "interruptible-capacity-reservation",
            });
        let capacity_type = match (&described.spot_request_id, &reservation) {
            (Some(_), _) => CapacityType::Spot,
            (None, Some(_)) => CapacityType::Reserved,
            (None, None) => CapacityType::OnDemand,
        };
        let efa = described
            .interface_types
            .iter()
            .filter(|kind| matches!(kind.as_str(), "efa" | "efa-only"));
        Self {
            capacity_type,
            reservation: reservation.filter(|_| capacity_type == CapacityType::Reserved),
            tenancy: match described.tenancy.as_str() {
                "" => TENANCY_DEFAULT.to_owned(),
                tenancy => tenancy.to_owned(),
            },
            efa_count: i64::try_from(efa.count()).unwrap_or(i64::MAX),
            partition: Some(described.partition).filter(|number| *number > 0),
            described,
        }
    }

    /// Whether it terminates or has terminated.
    pub fn is_terminating(&self) -> bool {
        matches!(self.described.state.as_str(), "shutting-down" | "terminated")
    }
}

/// The filters that list the cluster's instances (AWS-260).
pub fn list_query(cluster: &str) -> Query {
    vec![
        Filter::new("tag-key", [tags::NODE_POOL]),
        Filter::new("tag-key", [tags::NODE_CLASS]),
        Filter::new(format!("tag:{}", tags::CLUSTER_NAME), [cluster]),
        Filter::new("instance-state-name", LIVE_STATES),
    ]
}

/// An amount of the model as a quantity.
fn quantity(name: &str, amount: i64) -> Quantity {
    match name {
        core_names::CPU => Quantity::from_millis(amount),
        core_names::MEMORY | core_names::EPHEMERAL_STORAGE => Quantity::from_bytes(amount),
        _ => Quantity::from_units(amount),
    }
}

/// Amounts without zero entries. EFA interfaces are those the instance has.
fn amounts(resources: &Resources, efa_count: i64, interner: &Interner) -> BTreeMap<String, Quantity> {
    let mut amounts: BTreeMap<String, Quantity> = resources
        .sorted_by_name(interner)
        .into_iter()
        .filter(|(name, amount)| *amount != 0 && *name != EFA)
        .map(|(name, amount)| (name.to_owned(), quantity(name, amount)))
        .collect();
    if efa_count > 0 {
        amounts.insert(EFA.to_owned(), Quantity::from_units(efa_count));
    }
    amounts
}

/// The instance in the terms of a claim (AWS-287 to AWS-290). `kind` is its instance type, and `status` that of its class, where they are
/// still known.
pub fn launched(
    instance: &Instance,
    kind: Option<&InstanceType>,
    status: Option<&EC2NodeClassStatus>,
    annotations: BTreeMap<String, String>,
    interner: &Interner,
) -> Launched {
    let described = &instance.described;
    let mut labels = BTreeMap::new();
    for requirement in kind.into_iter().flat_map(|kind| &kind.requirements) {
        let key = interner.text(requirement.key);
        if let (Some(value), false) = (requirement.single(), RESERVATION.contains(&key)) {
            labels.insert(key.to_owned(), interner.text(value).to_owned());
        }
    }
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), value.to_owned());
    set(core_labels::ZONE, &described.zone);
    let mut subnets = status.into_iter().flat_map(|status| &status.subnets);
    let of_zone = subnets.find(|subnet| subnet.zone == described.zone);
    if let Some(id) = of_zone.and_then(|subnet| subnet.zone_id.as_deref()) {
        set(ZONE_ID, id);
    }
    set(core_labels::CAPACITY_TYPE, instance.capacity_type.as_str());
    set(TENANCY, &instance.tenancy);
    if let Some(reservation) = &instance.reservation {
        set(RESERVATION_ID, &reservation.id);
        set(RESERVATION_TYPE, reservation.reservation_type);
        set(
            RESERVATION_INTERRUPTIBLE,
            if reservation.interruptible { "true" } else { "false" },
        );
    }
    if let Some(pool) = described.tags.get(tags::NODE_POOL) {
        set(core_labels::NODE_POOL, pool);
    }
    let (mut capacity, mut left) = (BTreeMap::new(), BTreeMap::new());
    if let Some(kind) = kind {
        let room = allocatable(&kind.capacity, &kind.overhead, |_| false);
        capacity = amounts(&kind.capacity, instance.efa_count, interner);
        left = amounts(&room, instance.efa_count, interner);
    }
    Launched {
        provider_id: provider_id(&described.zone, &described.id),
        image_id: Some(described.image_id.clone()),
        labels,
        annotations,
        capacity,
        allocatable: left,
        created: Some(described.launched),
        deleting: instance.is_terminating(),
        ..Launched::default()
    }
}
