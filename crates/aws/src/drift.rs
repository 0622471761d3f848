//! Why the instance of a claim no longer matches its class (section 20 of `docs/behaviour/aws.md`).

use kerf_api::ec2_node_class::{EC2NodeClassStatus, has_static_drift};
use std::collections::{BTreeMap, BTreeSet};

/// What of a claim's instance no longer matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Drift {
    /// A field of the class that is hashed.
    NodeClass,
    /// The image.
    Ami,
    /// The security groups.
    SecurityGroup,
    /// The subnet.
    Subnet,
    /// The capacity reservation.
    CapacityReservation,
    /// The placement group.
    PlacementGroup,
}

impl Drift {
    /// The reason in the claim's condition.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::NodeClass => "NodeClassDrift",
            Self::Ami => "AMIDrift",
            Self::SecurityGroup => "SecurityGroupDrift",
            Self::Subnet => "SubnetDrift",
            Self::CapacityReservation => "CapacityReservationDrift",
            Self::PlacementGroup => "PlacementGroupDrift",
        }
    }
}

/// Why drift cannot be judged now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DriftError {
    /// The claim's instance type is not among those of the pool.
    #[error("instance type {0:?} is not offered to the pool")]
    InstanceTypeUnknown(String),
    /// The class has no images.
    #[error("no AMIs exist given constraints")]
    NoAmis,
    /// The claim names no image.
    #[error("the NodeClaim has no image id")]
    NoImage,
    /// The class has no security groups.
    #[error("no security groups are present in the status")]
    NoSecurityGroups,
    /// The class has no subnets.
    #[error("no subnets are discovered")]
    NoSubnets,
    /// The claim has no instance.
    #[error("the NodeClaim has no provider id")]
    NoInstance,
}

/// The placement group that holds for a class now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrentGroup<'a> {
    /// This one.
    Id(&'a str),
    /// None.
    None,
    /// EC2 could not be asked: nothing is known, and nothing has drifted because of it (AWS-299).
    Unknown,
}

/// The facts about an instance that drift depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriftInstance {
    /// Ids of its security groups.
    pub security_group_ids: BTreeSet<String>,
    /// Id of its subnet.
    pub subnet_id: String,
    /// Id of the reservation it runs in; `None` for an instance that fell back to on-demand.
    pub reservation_id: Option<String>,
}

/// The facts about a claim that drift depends on.
#[derive(Clone, Copy, Debug)]
pub struct DriftClaim<'a> {
    /// Annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// Instance type.
    pub instance_type: &'a str,
    /// Image.
    pub image_id: Option<&'a str>,
    /// Placement group in its labels; empty for none.
    pub group_id: &'a str,
}

/// Drift that shows without asking EC2: the hash, then the image. `current_ami` is the image the claim's instance type would get now; the
/// outer `None` means that the pool does not offer the type.
pub fn static_drift(
    claim: &DriftClaim<'_>,
    class_annotations: &BTreeMap<String, String>,
    status: &EC2NodeClassStatus,
    current_ami: Option<Option<&str>>,
) -> Result<Option<Drift>, DriftError> {
    if has_static_drift(class_annotations, claim.annotations) {
        return Ok(Some(Drift::NodeClass));
    }
    let current = current_ami.ok_or_else(|| DriftError::InstanceTypeUnknown(claim.instance_type.to_owned()))?;
    if status.amis.is_empty() {
        return Err(DriftError::NoAmis);
    }
    let image = claim.image_id.filter(|id| !id.is_empty()).ok_or(DriftError::NoImage)?;
    Ok((current != Some(image)).then_some(Drift::Ami))
}

/// Drift of the instance: security groups, subnet, capacity reservation, placement group; the first that shows (AWS-293).
/// `fresh_reservation` describes the instance anew, in case its reservation is unknown: it may have fallen back to on-demand.
pub fn instance_drift(
    instance: &DriftInstance,
    claim: &DriftClaim<'_>,
    status: &EC2NodeClassStatus,
    fresh_reservation: impl FnOnce() -> Option<String>,
    group: CurrentGroup<'_>,
) -> Result<Option<Drift>, DriftError> {
    if status.security_groups.is_empty() {
        return Err(DriftError::NoSecurityGroups);
    }
    if status.subnets.is_empty() {
        return Err(DriftError::NoSubnets);
    }
    let wanted: BTreeSet<&str> = status.security_groups.iter().map(|group| group.id.as_str()).collect();
    let actual: BTreeSet<&str> = instance.security_group_ids.iter().map(String::as_str).collect();
    let is_known = |id: &str| {
        status
            .capacity_reservations
            .iter()
            .any(|reservation| reservation.id == id)
    };
    let is_drifted_reservation = |id: &String| !is_known(id) && fresh_reservation().is_some_and(|id| !is_known(&id));
    let is_wanted_group = match group {
        CurrentGroup::Id(id) => claim.group_id == id,
        CurrentGroup::None => claim.group_id.is_empty(),
        CurrentGroup::Unknown => true,
    };
    Ok(if wanted != actual {
        Some(Drift::SecurityGroup)
    } else if !status.subnets.iter().any(|subnet| subnet.id == instance.subnet_id) {
        Some(Drift::Subnet)
    } else if instance.reservation_id.as_ref().is_some_and(is_drifted_reservation) {
        Some(Drift::CapacityReservation)
    } else if !is_wanted_group {
        Some(Drift::PlacementGroup)
    } else {
        None
    })
}
