//! What a launch needs: checks a request, and makes instances.

use super::Account;
use super::capacity::{Pool, Purchase};
use super::instances::{Health, Instance};
use super::network::{SPREAD_MAX, Subnet};
use super::refusal::{Answer, Refusal};
use super::templates::{LaunchData, check_user_data};
use jiff::{SignedDuration, Timestamp};
use kerf_aws::instance_end::StateReason;
use kerf_aws::placement_group::Strategy;
use kerf_aws::tags::Tags;
use std::collections::{BTreeMap, BTreeSet};

/// The permission to give the role of a profile to an instance.
const PASS_ROLE: &str = "iam:PassRole";

/// From a launch until the instance ends whose disks cannot be made.
const ENDS_AFTER: SignedDuration = SignedDuration::from_secs(3);

/// A launch that is possible but for capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launchable {
    pub(super) instance_type: String,
    pub(super) architecture: String,
    pub(super) image_id: String,
    pub(super) subnet: Subnet,
    pub(super) group_ids: Vec<String>,
    pub(super) purchase: Purchase,
    pub(super) reservation_id: Option<String>,
}

fn not_supported(message: String) -> Refusal {
    Refusal::new("Unsupported", message)
}

impl Account {
    /// Checks a launch, before capacity is requested. `zone` and `subnet` are those of a fleet's override.
    pub(super) fn launchable(
        &self,
        data: &LaunchData,
        zone: Option<&str>,
        subnet: Option<&str>,
        purchase: Purchase,
        now: Timestamp,
    ) -> Answer<Launchable> {
        check_user_data(&data.user_data)?;
        let name = data
            .instance_type
            .as_deref()
            .ok_or_else(|| Refusal::missing("InstanceType"))?;
        let kind = self.instance_type(name).ok_or_else(|| {
            Refusal::new(
                "InvalidParameterValue",
                format!("Invalid value '{name}' for InstanceType."),
            )
        })?;
        let architecture = self.check_image(data, &kind.architectures, now)?;
        let of_interfaces = data.interfaces.iter().find_map(|one| one.subnet_id.as_deref());
        let subnet = self.launch_subnet(subnet.or(of_interfaces), zone)?;
        if !self.offers(name, &subnet.zone.name) {
            let message = format!(
                "Your requested instance type ({name}) is not supported in your requested Availability Zone ({}).",
                subnet.zone.name
            );
            return Err(not_supported(message));
        }
        let group_ids = self.launch_groups(data, subnet)?;
        self.check_profile(data, now)?;
        self.check_placement(data, subnet)?;
        let reservation_id = self.launch_reservation(data, name, subnet, now)?;
        Ok(Launchable {
            instance_type: name.to_owned(),
            architecture,
            image_id: data.image_id.clone().unwrap_or_default(),
            subnet: subnet.clone(),
            group_ids,
            purchase: if reservation_id.is_some() {
                Purchase::Reserved
            } else {
                purchase
            },
            reservation_id,
        })
    }

    fn check_image(&self, data: &LaunchData, architectures: &[String], now: Timestamp) -> Answer<String> {
        let id = data.image_id.as_deref().ok_or_else(|| Refusal::missing("ImageId"))?;
        let image = self.images.iter().find(|image| image.id == id && image.created <= now);
        let image = image
            .ok_or_else(|| Refusal::new("InvalidAMIID.NotFound", format!("The image id '[{id}]' does not exist")))?;
        if image.state != "available" {
            let message = format!("The image id '[{id}]' is no longer available");
            return Err(Refusal::new("InvalidAMIID.Unavailable", message));
        }
        if !architectures.contains(&image.architecture) {
            let message = format!(
                "The architecture '{}' of the specified instance type does not match the architecture '{}' of the specified AMI.",
                architectures.join(","),
                image.architecture
            );
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        Ok(image.architecture.clone())
    }

    fn launch_subnet(&self, id: Option<&str>, zone: Option<&str>) -> Answer<&Subnet> {
        let found = match id {
            Some(id) => self.subnets.iter().find(|subnet| subnet.id == id).ok_or_else(|| {
                Refusal::new(
                    "InvalidSubnetID.NotFound",
                    format!("The subnet ID '{id}' does not exist"),
                )
            })?,
            // This account has no default network.
            None => {
                return Err(Refusal::new(
                    "MissingInput",
                    "No subnets found for the default VPC. Please specify a subnet.",
                ));
            }
        };
        match zone {
            Some(zone) if zone != found.zone.name => {
                let message = format!("The subnet {} is not in the Availability Zone {zone}.", found.id);
                Err(Refusal::new("InvalidParameterValue", message))
            }
            _ => Ok(found),
        }
    }

    fn launch_groups(&self, data: &LaunchData, subnet: &Subnet) -> Answer<Vec<String>> {
        let ids: BTreeSet<&String> = data.interfaces.iter().flat_map(|one| &one.group_ids).collect();
        for id in &ids {
            let group = self.security_groups.iter().find(|group| group.id == **id);
            let group = group.ok_or_else(|| {
                Refusal::new(
                    "InvalidGroup.NotFound",
                    format!("The security group '{id}' does not exist"),
                )
            })?;
            if group.vpc_id != subnet.vpc_id {
                let message = format!(
                    "Security group {id} and subnet {} belong to different networks.",
                    subnet.id
                );
                return Err(Refusal::new("InvalidParameter", message));
            }
        }
        Ok(ids.into_iter().cloned().collect())
    }

    fn check_profile(&self, data: &LaunchData, now: Timestamp) -> Answer<()> {
        let Some(name) = &data.profile else { return Ok(()) };
        let role = self.profiles.get(name).and_then(|profile| profile.role.as_deref());
        let of_role = role.map(|role| format!("{PASS_ROLE}:{role}"));
        if self.denied.contains(PASS_ROLE) || of_role.is_some_and(|one| self.denied.contains(&one)) {
            let message = format!(
                "You are not authorized to perform this operation. User is not authorized to perform: {PASS_ROLE} because no identity-based policy \
                 allows the {PASS_ROLE} action"
            );
            return Err(Refusal::new("UnauthorizedOperation", message).with_status(403));
        }
        let seen = self
            .profiles
            .get(name)
            .filter(|profile| profile.created + self.delays.profile <= now);
        let Some(profile) = seen else {
            let message = format!(
                "Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
            );
            return Err(Refusal::new("InvalidParameterValue", message));
        };
        if profile.role.is_none() {
            let message = format!("IAM Instance Profile \"{name}\" has no associated IAM Roles");
            return Err(Refusal::new("InvalidParameterValue", message));
        }
        Ok(())
    }

    fn check_placement(&self, data: &LaunchData, subnet: &Subnet) -> Answer<()> {
        let Some(id) = &data.placement_group else { return Ok(()) };
        let group = self
            .placement_groups
            .iter()
            .find(|group| group.id == *id)
            .ok_or_else(|| {
                Refusal::new(
                    "InvalidPlacementGroup.Unknown",
                    format!("The Placement Group '{id}' is unknown."),
                )
            })?;
        let partition = data.partition.unwrap_or(0);
        if partition > group.partitions {
            return Err(Refusal::invalid_value("PartitionNumber", &partition.to_string()));
        }
        let in_zone = self
            .instances
            .values()
            .filter(|one| one.placement_group.as_ref() == Some(id) && one.zone == subnet.zone && one.occupies());
        if group.strategy == Strategy::Spread && in_zone.count() >= SPREAD_MAX {
            let message =
                "You have reached the limit of instances in this spread placement group in this Availability Zone.";
            return Err(Refusal::new("InsufficientInstanceCapacity", message));
        }
        Ok(())
    }

    /// The reservation that the launch uses: the one it names, or an open one that fits unless it wants none.
    fn launch_reservation(
        &self,
        data: &LaunchData,
        kind: &str,
        subnet: &Subnet,
        now: Timestamp,
    ) -> Answer<Option<String>> {
        if let Some(id) = &data.reservation.target {
            let one = self.reservation(id)?;
            let fits = one.instance_type == kind && one.zone == subnet.zone && one.state(now) == "active";
            let is_block = data.market.as_deref() == Some("capacity-block");
            if !fits || (one.kind == "capacity-block") != is_block {
                let message = format!("The capacity reservation {id} does not match the launch.");
                return Err(Refusal::new("InvalidCapacityReservationId.Mismatch", message));
            }
            if self.free_in_reservation(one) == 0 {
                let message = format!("The capacity reservation {id} has no capacity left.");
                return Err(Refusal::new("ReservationCapacityExceeded", message));
            }
            return Ok(Some(id.clone()));
        }
        if data.reservation.preference.as_deref() == Some("none") {
            return Ok(None);
        }
        let open = self.reservations.iter().find(|one| {
            one.match_criteria == "open"
                && one.kind == "default"
                && one.instance_type == kind
                && one.zone == subnet.zone
                && one.state(now) == "active"
                && self.free_in_reservation(one) > 0
        });
        Ok(open.map(|one| one.id.clone()))
    }

    /// How many of so many instances can be launched, or why none.
    pub(super) fn room(&self, launch: &Launchable, occupied: &BTreeMap<Pool, u32>) -> Answer<u32> {
        let addresses = self.free_addresses(&launch.subnet);
        if addresses == 0 {
            let message = format!(
                "There are not enough free addresses in subnet '{}' to satisfy the requested number of instances.",
                launch.subnet.id
            );
            return Err(Refusal::new("InsufficientFreeAddressesInSubnet", message));
        }
        let pool = Pool {
            instance_type: launch.instance_type.clone(),
            zone: launch.subnet.zone.name.clone(),
            purchase: launch.purchase,
        };
        let room = self.pools.room(&pool, occupied).map_err(|code| {
            let message = format!(
                "We currently do not have sufficient {} capacity in the Availability Zone you requested ({}).",
                pool.instance_type, pool.zone
            );
            Refusal::new(code, message)
        })?;
        let in_reservation = match &launch.reservation_id {
            Some(id) => self.free_in_reservation(self.reservation(id)?),
            None => u32::MAX,
        };
        Ok(room.min(addresses).min(in_reservation))
    }

    /// Makes one instance.
    pub(super) fn launch(&mut self, launch: &Launchable, data: &LaunchData, tags: Tags, now: Timestamp) -> String {
        let id = self.ids.next("i");
        let is_spot = launch.purchase == Purchase::Spot;
        let number = self.ids.count();
        let mut all_tags = data.tags.get("instance").cloned().unwrap_or_default();
        all_tags.extend(tags);
        let state_reason = self.end_at_launch(data);
        let instance = Instance {
            id: id.clone(),
            instance_type: launch.instance_type.clone(),
            architecture: launch.architecture.clone(),
            image_id: launch.image_id.clone(),
            zone: launch.subnet.zone.clone(),
            subnet_id: launch.subnet.id.clone(),
            vpc_id: launch.subnet.vpc_id.clone(),
            group_ids: launch.group_ids.clone(),
            address: format!(
                "10.{}.{}.{}",
                (number >> 16) & 0xff,
                (number >> 8) & 0xff,
                number & 0xff
            ),
            purchase: launch.purchase,
            spot_request_id: is_spot.then(|| self.ids.next("sir")),
            lifecycle: if is_spot {
                Some("spot".to_owned())
            } else {
                data.market.clone()
            },
            reservation_id: launch.reservation_id.clone(),
            reservation_preference: data.reservation.preference.clone(),
            tenancy: data.tenancy.clone().unwrap_or_else(|| "default".to_owned()),
            interface_types: data
                .interfaces
                .iter()
                .map(|one| {
                    if one.interface_type.is_empty() {
                        "interface".to_owned()
                    } else {
                        one.interface_type.clone()
                    }
                })
                .collect(),
            placement_group: data.placement_group.clone(),
            partition: self.partition(data),
            profile: data.profile.clone(),
            user_data: data.user_data.clone(),
            volumes: data.volumes.clone(),
            tags: all_tags,
            launched: now,
            runs_from: now + self.delays.boot,
            stopped: None,
            ends: state_reason.as_ref().map(|_| now + ENDS_AFTER),
            state_reason,
            health: Health::default(),
            announced: None,
        };
        self.instances.insert(id.clone(), instance);
        id
    }

    /// Why an instance ends as soon as its disks are made: EC2 looks at their keys only then.
    fn end_at_launch(&self, data: &LaunchData) -> Option<StateReason> {
        let is_unknown = data.kms_keys.iter().any(|key| !self.kms_keys.contains(key));
        is_unknown.then(|| StateReason {
            code: "Client.InternalError".to_owned(),
            message: "Client.InternalError: Client error on launch".to_owned(),
        })
    }

    /// The partition of a new instance: the one asked for, else the one with fewest instances.
    fn partition(&self, data: &LaunchData) -> Option<u32> {
        let id = data.placement_group.as_ref()?;
        let group = self
            .placement_groups
            .iter()
            .find(|group| group.id == *id && group.partitions > 0)?;
        let load = |partition: &u32| {
            let others = self
                .instances
                .values()
                .filter(|one| one.placement_group.as_ref() == Some(id));
            others
                .filter(|one| one.occupies() && one.partition == Some(*partition))
                .count()
        };
        data.partition.or_else(|| (1..=group.partitions).min_by_key(load))
    }
}
