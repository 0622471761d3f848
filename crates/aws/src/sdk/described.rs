//! What EC2 describes, as plain values.

use super::values::{count, tags, text, time};
use crate::ami::Image;
use crate::instance::DescribedInstance;
use crate::instance_end::StateReason;
use crate::interruption::{StatusCategory, StatusDetail, is_event_due};
use crate::placement_group::{PlacementGroup, Strategy};
use crate::pricing::SpotPriceRow;
use crate::reservation::DescribedReservation;
use crate::services::{InstanceStatus, InstanceTypeZone};
use crate::subnet::Subnet;
use aws_sdk_ec2::types;
use jiff::Timestamp;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;

pub(super) fn subnet(from: &types::Subnet) -> Subnet {
    Subnet {
        id: text(from.subnet_id()),
        zone: text(from.availability_zone()),
        zone_id: from.availability_zone_id().map(str::to_owned),
        free_addresses: count(from.available_ip_address_count()),
    }
}

pub(super) fn security_group(from: &types::SecurityGroup) -> NodeClassSecurityGroup {
    NodeClassSecurityGroup {
        id: text(from.group_id()),
        name: from.group_name().map(str::to_owned),
    }
}

pub(super) fn image(from: &types::Image) -> Image {
    let read = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
    Image {
        id: text(from.image_id()),
        name: from.name().map(str::to_owned),
        architecture: text(from.architecture().map(types::ArchitectureValues::as_str)),
        created: read(from.creation_date()),
        deprecated_from: read(from.deprecation_time()),
    }
}

pub(super) fn reservation(from: &types::CapacityReservation) -> DescribedReservation {
    DescribedReservation {
        id: text(from.capacity_reservation_id()),
        zone: text(from.availability_zone()),
        instance_type: text(from.instance_type()),
        owner_id: text(from.owner_id()),
        instance_match_criteria: text(from.instance_match_criteria().map(types::InstanceMatchCriteria::as_str)),
        reservation_type: text(from.reservation_type().map(types::CapacityReservationType::as_str)),
        interruptible: from.interruptible(),
        end: time(from.end_date()),
        available: u32::try_from(count(from.available_instance_count())).unwrap_or(0),
    }
}

/// `None` for a strategy that is not known: instances of such a group cannot be placed.
pub(super) fn placement_group(from: &types::PlacementGroup) -> Option<PlacementGroup> {
    let strategy = match from.strategy()?.as_str() {
        "cluster" => Strategy::Cluster,
        "partition" => Strategy::Partition,
        "spread" => Strategy::Spread,
        _ => return None,
    };
    Some(PlacementGroup {
        id: text(from.group_id()),
        name: text(from.group_name()),
        strategy,
        partitions: u32::try_from(count(from.partition_count())).unwrap_or(0),
    })
}

pub(super) fn type_zone(from: &types::InstanceTypeOffering) -> Option<InstanceTypeZone> {
    Some(InstanceTypeZone {
        instance_type: from.instance_type()?.as_str().to_owned(),
        zone: from.location()?.to_owned(),
    })
}

pub(super) fn spot_price(from: &types::SpotPrice) -> Option<SpotPriceRow> {
    Some(SpotPriceRow {
        instance_type: from.instance_type()?.as_str().to_owned(),
        zone: from.availability_zone()?.to_owned(),
        price: text(from.spot_price()),
        since: time(from.timestamp()),
    })
}

/// An instance; `None` for one without a time of launch, which EC2 always says.
pub(super) fn instance(from: &types::Instance) -> Option<DescribedInstance> {
    let placement = from.placement();
    let specification = from.capacity_reservation_specification();
    let preference =
        specification.and_then(types::CapacityReservationSpecificationResponse::capacity_reservation_preference);
    let interfaces = from.network_interfaces().iter();
    let groups = from.security_groups().iter();
    Some(DescribedInstance {
        id: from.instance_id()?.to_owned(),
        state: text(
            from.state()
                .and_then(types::InstanceState::name)
                .map(types::InstanceStateName::as_str),
        ),
        state_reason: from.state_reason().map(|reason| StateReason {
            code: text(reason.code()),
            message: text(reason.message()),
        }),
        instance_type: text(from.instance_type().map(types::InstanceType::as_str)),
        image_id: text(from.image_id()),
        zone: text(placement.and_then(types::Placement::availability_zone)),
        zone_id: placement
            .and_then(types::Placement::availability_zone_id)
            .map(str::to_owned),
        launched: time(from.launch_time())?,
        tags: tags(from.tags()),
        spot_request_id: from
            .spot_instance_request_id()
            .filter(|id| !id.is_empty())
            .map(str::to_owned),
        lifecycle: text(from.instance_lifecycle().map(types::InstanceLifecycleType::as_str)),
        reservation_id: from
            .capacity_reservation_id()
            .filter(|id| !id.is_empty())
            .map(str::to_owned),
        reservation_preference: preference.map(|one| one.as_str().to_owned()),
        tenancy: text(
            placement
                .and_then(types::Placement::tenancy)
                .map(types::Tenancy::as_str),
        ),
        interface_types: interfaces.map(|one| text(one.interface_type())).collect(),
        partition: u32::try_from(count(placement.and_then(types::Placement::partition_number))).unwrap_or(0),
        subnet_id: text(from.subnet_id()),
        security_group_ids: groups.filter_map(|group| group.group_id().map(str::to_owned)).collect(),
    })
}

/// The checks and events of an instance. Each detail of a check is one; events that have ended are left out.
pub(super) fn instance_status(from: &types::InstanceStatus) -> Option<InstanceStatus> {
    let summary = |category, summary: Option<&types::InstanceStatusSummary>| {
        let details = summary.map(types::InstanceStatusSummary::details).unwrap_or_default();
        let detail = |one: &types::InstanceStatusDetails| StatusDetail {
            category,
            failed: one.status() == Some(&types::StatusType::Failed),
            impaired_since: time(one.impaired_since()),
        };
        details.iter().map(detail).collect::<Vec<_>>()
    };
    let mut details = summary(StatusCategory::Instance, from.instance_status());
    details.extend(summary(StatusCategory::System, from.system_status()));
    let is_due = |event: &&types::InstanceStatusEvent| {
        let code = event.code().map_or("", types::EventCode::as_str);
        is_event_due(code, event.description().unwrap_or_default())
    };
    details.extend(from.events().iter().filter(is_due).map(|_| StatusDetail {
        category: StatusCategory::Event,
        failed: false,
        impaired_since: None,
    }));
    Some(InstanceStatus {
        instance_id: from.instance_id()?.to_owned(),
        details,
    })
}
