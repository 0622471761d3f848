//! What the controllers found for a class (AWS-030).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::node_spec::{Requirement, or_default};

/// The status of an EC2NodeClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EC2NodeClassStatus {
    /// Subnets, those with most free addresses first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub subnets: Vec<NodeClassSubnet>,
    /// Security groups by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub security_groups: Vec<NodeClassSecurityGroup>,
    /// Capacity reservations by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub capacity_reservations: Vec<NodeClassReservation>,
    /// Images, the preferred ones first.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub amis: Vec<NodeClassAmi>,
    /// Instance profile of new instances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_profile: Option<String>,
    /// Findings, one entry per topic.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub conditions: Vec<Condition>,
}

impl EC2NodeClassStatus {
    /// Whether nothing was found yet.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A subnet that the class selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassSubnet {
    /// Id of the subnet.
    pub id: String,
    /// Name of its zone.
    pub zone: String,
    /// Id of its zone, which is equal in all accounts.
    #[serde(default, rename = "zoneID", skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
}

/// A security group that the class selects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassSecurityGroup {
    /// Id of the group.
    pub id: String,
    /// Name of the group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// An image that the class selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassAmi {
    /// Id of the image.
    pub id: String,
    /// Name of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether its owner has deprecated it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Instance types it can be used for.
    #[serde(default, deserialize_with = "or_default")]
    pub requirements: Vec<Requirement>,
}

/// A capacity reservation that the class selects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeClassReservation {
    /// Zone of the reservation.
    pub availability_zone: String,
    /// When it ends; `None` for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Timestamp>,
    /// Id of the reservation.
    pub id: String,
    /// `open` or `targeted`.
    pub instance_match_criteria: String,
    /// Instance type of the reservation.
    pub instance_type: String,
    /// Account that owns it.
    #[serde(rename = "ownerID")]
    pub owner_id: String,
    /// `default` or `capacity-block`.
    #[serde(default = "default_type")]
    pub reservation_type: String,
    /// Whether EC2 may take its instances back.
    #[serde(default)]
    pub interruptible: bool,
    /// `active` or `expiring`.
    #[serde(default = "active")]
    pub state: String,
}

fn default_type() -> String {
    "default".to_owned()
}

fn active() -> String {
    "active".to_owned()
}
