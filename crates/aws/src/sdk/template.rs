//! Launch templates as EC2 takes them (AWS-161 to AWS-175).

use super::values::sdk_tags;
use crate::launch::{
    BlockDeviceRequest, InterfaceRequest, MarketType, MetadataRequest, PlacementRequest, ReservationPreference,
    TemplateData,
};
use aws_sdk_ec2::types;
use kerf_api::ec2_node_class::ConnectionTracking;

/// A number that EC2 takes as 32 bits; one that does not fit is refused by EC2 in any case.
fn narrow(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// The data of a template.
pub(super) fn template_data(data: &TemplateData) -> types::RequestLaunchTemplateData {
    let profile = data.instance_profile.as_ref().map(|name| {
        types::LaunchTemplateIamInstanceProfileSpecificationRequest::builder()
            .name(name)
            .build()
    });
    let tags = data.tagged_resources.iter().map(|resource| {
        types::LaunchTemplateTagSpecificationRequest::builder()
            .resource_type(types::ResourceType::from(*resource))
            .set_tags(Some(sdk_tags(&data.tags)))
            .build()
    });
    types::RequestLaunchTemplateData::builder()
        .set_block_device_mappings(optional(data.block_devices.iter().map(block_device)))
        .set_cpu_options(data.nested_virtualization.as_deref().map(|nested| {
            types::LaunchTemplateCpuOptionsRequest::builder()
                .nested_virtualization(nested.into())
                .build()
        }))
        .set_iam_instance_profile(profile)
        .set_monitoring(data.monitoring.map(|enabled| {
            types::LaunchTemplatesMonitoringRequest::builder()
                .enabled(enabled)
                .build()
        }))
        .user_data(&data.user_data)
        .image_id(&data.image_id)
        .metadata_options(metadata(&data.metadata))
        .set_network_interfaces(optional(data.interfaces.iter().map(interface)))
        .placement(placement(&data.placement))
        .enclave_options(
            types::LaunchTemplateEnclaveOptionsRequest::builder()
                .enabled(data.enclaves)
                .build(),
        )
        .set_capacity_reservation_specification(data.reservation.as_ref().map(reservation))
        .set_instance_market_options(data.market.map(market))
        .set_tag_specifications(optional(tags))
        .build()
}

/// A list; `None` for an empty one.
fn optional<T>(values: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let values: Vec<T> = values.collect();
    (!values.is_empty()).then_some(values)
}

fn block_device(disk: &BlockDeviceRequest) -> types::LaunchTemplateBlockDeviceMappingRequest {
    let ebs = types::LaunchTemplateEbsBlockDeviceRequest::builder()
        .set_delete_on_termination(disk.delete_on_termination)
        .set_encrypted(disk.encrypted)
        .set_iops(disk.iops.map(narrow))
        .set_kms_key_id(disk.kms_key_id.clone())
        .set_snapshot_id(disk.snapshot_id.clone())
        .set_throughput(disk.throughput.map(narrow))
        .set_volume_initialization_rate(disk.volume_initialization_rate)
        .set_volume_size(disk.volume_gib.map(narrow))
        .set_volume_type(disk.volume_type.as_deref().map(Into::into))
        .build();
    types::LaunchTemplateBlockDeviceMappingRequest::builder()
        .set_device_name(disk.device_name.clone())
        .ebs(ebs)
        .build()
}

fn metadata(request: &MetadataRequest) -> types::LaunchTemplateInstanceMetadataOptionsRequest {
    types::LaunchTemplateInstanceMetadataOptionsRequest::builder()
        .set_http_endpoint(request.http_endpoint.as_deref().map(Into::into))
        .set_http_protocol_ipv6(request.http_protocol_ipv6.as_deref().map(Into::into))
        .set_http_put_response_hop_limit(request.http_put_response_hop_limit.map(narrow))
        .set_http_tokens(request.http_tokens.as_deref().map(Into::into))
        .instance_metadata_tags(types::LaunchTemplateInstanceMetadataTagsState::Disabled)
        .build()
}

fn placement(request: &PlacementRequest) -> types::LaunchTemplatePlacementRequest {
    types::LaunchTemplatePlacementRequest::builder()
        .tenancy(request.tenancy.as_str().into())
        .set_group_id(request.group_id.clone())
        .set_partition_number(request.partition.map(|number| narrow(i64::from(number))))
        .build()
}

fn reservation(preference: &ReservationPreference) -> types::LaunchTemplateCapacityReservationSpecificationRequest {
    let builder = types::LaunchTemplateCapacityReservationSpecificationRequest::builder();
    match preference {
        ReservationPreference::None => {
            builder.capacity_reservation_preference(types::CapacityReservationPreference::None)
        }
        ReservationPreference::Only(id) => builder
            .capacity_reservation_preference(types::CapacityReservationPreference::CapacityReservationsOnly)
            .capacity_reservation_target(
                types::CapacityReservationTarget::builder()
                    .capacity_reservation_id(id)
                    .build(),
            ),
    }
    .build()
}

fn market(market: MarketType) -> types::LaunchTemplateInstanceMarketOptionsRequest {
    let market = match market {
        MarketType::CapacityBlock => types::MarketType::CapacityBlock,
        MarketType::InterruptibleReservation => types::MarketType::InterruptibleCapacityReservation,
    };
    types::LaunchTemplateInstanceMarketOptionsRequest::builder()
        .market_type(market)
        .build()
}

/// Timeouts of tracked connections; only those that are given.
pub(super) fn connection_tracking(from: ConnectionTracking) -> types::ConnectionTrackingSpecificationRequest {
    types::ConnectionTrackingSpecificationRequest::builder()
        .set_tcp_established_timeout(from.tcp_established_timeout)
        .set_udp_stream_timeout(from.udp_stream_timeout)
        .set_udp_timeout(from.udp_timeout)
        .build()
}

fn interface(request: &InterfaceRequest) -> types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest {
    types::LaunchTemplateInstanceNetworkInterfaceSpecificationRequest::builder()
        .set_network_card_index(request.network_card_index)
        .device_index(request.device_index)
        .set_interface_type(request.interface_type.map(str::to_owned))
        .set_groups(Some(request.security_group_ids.clone()))
        .set_associate_public_ip_address(request.associate_public_ip_address)
        .set_ipv4_prefix_count(request.ipv4_prefix_count)
        .set_ipv6_prefix_count(request.ipv6_prefix_count)
        .set_primary_ipv6(request.primary_ipv6)
        .set_ipv6_address_count(request.ipv6_address_count)
        .set_connection_tracking_specification(request.connection_tracking.map(connection_tracking))
        .build()
}
