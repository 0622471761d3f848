//! What the errors in an answer of CreateFleet mean for later launches (AWS-252 to AWS-254, AWS-479, AWS-503).

use crate::errors::{ApiError, classify};
use crate::offering::{CapacityType, GroupScope, UnavailableKey};
use std::collections::BTreeMap;

/// An error of one override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetError {
    /// Code and message.
    pub error: ApiError,
    /// Instance type of the override.
    pub instance_type: String,
    /// Zone of the override.
    pub zone: String,
    /// Subnet of the override.
    pub subnet_id: Option<String>,
}

/// What a launch was for.
#[derive(Clone, Debug)]
pub struct FleetScope<'a> {
    /// How the instance was bought.
    pub capacity_type: CapacityType,
    /// All instance types of the launch.
    pub instance_types: &'a [&'a str],
    /// Placement group and partition.
    pub group: Option<GroupScope>,
    /// Reservation of each instance type and zone, in a reserved launch.
    pub reservations: &'a BTreeMap<(String, String), String>,
}

/// Something to remember after a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// An offering without capacity.
    Offering(UnavailableKey),
    /// A capacity type that cannot be launched at all: the account lacks the role for spot. A warning event goes with it.
    CapacityType(CapacityType),
    /// A subnet without free addresses. Its known number of free addresses becomes zero.
    Subnet(String),
    /// A reservation without capacity: its known number of free instances becomes zero.
    Reservation(String),
}

/// What to remember, in the order of the errors. Errors count also if an instance was launched.
pub fn marks(errors: &[FleetError], scope: &FleetScope<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    for error in errors {
        if let (true, Some(subnet)) = (error.error.is_subnet_full(), &error.subnet_id) {
            marks.push(Mark::Subnet(subnet.clone()));
        }
        match scope.capacity_type {
            CapacityType::Reserved => {
                let is_full = error.error.is_unfulfillable() && !error.error.is_spread_limit();
                let place = (error.instance_type.clone(), error.zone.clone());
                let reservation = scope.reservations.get(&place).filter(|_| is_full);
                marks.extend(reservation.map(|id| Mark::Reservation(id.clone())));
            }
            CapacityType::OnDemand | CapacityType::Spot => marks.extend(offering_marks(error, scope)),
        }
    }
    marks
}

fn offering_marks(error: &FleetError, scope: &FleetScope<'_>) -> Vec<Mark> {
    let key = |instance_type: &str, group: Option<GroupScope>| {
        Mark::Offering(UnavailableKey {
            instance_type: instance_type.to_owned(),
            zone: error.zone.clone(),
            capacity_type: scope.capacity_type,
            group,
        })
    };
    if error.error.is_service_linked_role_missing() {
        return vec![Mark::CapacityType(CapacityType::Spot)];
    }
    if !error.error.is_unfulfillable() {
        return Vec::new();
    }
    match &scope.group {
        // The limit is one of group and zone, whatever the type.
        Some(group) if error.error.is_spread_limit() => {
            let whole = GroupScope {
                id: group.id.clone(),
                partition: None,
            };
            let types = scope.instance_types.iter();
            types
                .map(|instance_type| key(instance_type, Some(whole.clone())))
                .collect()
        }
        group => vec![key(&error.instance_type, group.clone())],
    }
}

/// The labels of the launch-failure metric, one for each error: zone, id of the zone (empty if not known) and reason.
pub fn launch_failures<'a>(
    errors: &'a [FleetError],
    zone_ids: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = (&'a str, &'a str, &'static str)> {
    errors.iter().map(|error| {
        let zone_id = zone_ids.get(&error.zone).map(String::as_str).unwrap_or_default();
        (error.zone.as_str(), zone_id, classify(&error.error.to_string()).reason)
    })
}
