//! Requests that launch instances, and their answers (AWS-075, AWS-076, AWS-244 to AWS-252).

use super::template::connection_tracking;
use super::values::{sdk_tags, text};
use crate::errors::ApiError;
use crate::launch::{
    AllocationStrategy, FleetConfig, FleetError, FleetOutcome, FleetOverride, FleetRequest, FleetTagSpecification,
    InterfaceRequest, TargetCapacity,
};
use crate::services::{FleetAnswer, FleetDryRun, InstancesDryRun};
use aws_sdk_ec2::operation::create_fleet::{CreateFleetInput, CreateFleetOutput, builders::CreateFleetInputBuilder};
use aws_sdk_ec2::operation::run_instances::{RunInstancesInput, builders::RunInstancesInputBuilder};
use aws_sdk_ec2::types;

/// The newest version of a launch template.
const LATEST: &str = "$Latest";

/// Tags by kind of resource.
pub(super) fn tag_specifications(all: &[FleetTagSpecification]) -> Vec<types::TagSpecification> {
    let specification = |one: &FleetTagSpecification| {
        types::TagSpecification::builder()
            .resource_type(one.resource.into())
            .set_tags(Some(sdk_tags(&one.tags)))
            .build()
    };
    all.iter().map(specification).collect()
}

fn fleet(configs: Vec<types::FleetLaunchTemplateConfigRequest>, target: &str, count: u32) -> CreateFleetInputBuilder {
    let capacity = types::TargetCapacitySpecificationRequest::builder()
        .default_target_capacity_type(target.into())
        .total_target_capacity(i32::try_from(count).unwrap_or(i32::MAX))
        .build();
    CreateFleetInput::builder()
        .r#type(types::FleetType::Instant)
        .set_launch_template_configs(Some(configs))
        .target_capacity_specification(capacity)
}

fn config(
    template: &str,
    overrides: impl Iterator<Item = types::FleetLaunchTemplateOverridesRequest>,
) -> types::FleetLaunchTemplateConfigRequest {
    let template = types::FleetLaunchTemplateSpecificationRequest::builder()
        .launch_template_name(template)
        .version(LATEST)
        .build();
    types::FleetLaunchTemplateConfigRequest::builder()
        .launch_template_specification(template)
        .set_overrides(Some(overrides.collect()))
        .build()
}

fn fleet_override(one: &FleetOverride) -> types::FleetLaunchTemplateOverridesRequest {
    types::FleetLaunchTemplateOverridesRequest::builder()
        .instance_type(one.instance_type.as_str().into())
        .availability_zone(&one.zone)
        .set_subnet_id(one.subnet_id.clone())
        .image_id(&one.image_id)
        .priority(one.priority.per_hour())
        .build()
}

/// The request for so many instances.
pub(super) fn fleet_input(request: &FleetRequest, count: u32) -> CreateFleetInputBuilder {
    let configs = request.configs.iter();
    let configs = configs.map(|one: &FleetConfig| config(&one.template_name, one.overrides.iter().map(fleet_override)));
    let target = match request.target {
        TargetCapacity::Spot => "spot",
        TargetCapacity::OnDemand => "on-demand",
        TargetCapacity::CapacityBlock => "capacity-block",
        TargetCapacity::ReservedCapacity => "reserved-capacity",
    };
    let input = fleet(configs.collect(), target, count)
        .set_tag_specifications(Some(tag_specifications(&request.tags)))
        .set_context(request.context.clone());
    let spot = |strategy| {
        types::SpotOptionsRequest::builder()
            .allocation_strategy(strategy)
            .build()
    };
    match request.strategy {
        AllocationStrategy::PriceCapacityOptimized => {
            input.spot_options(spot(types::SpotAllocationStrategy::PriceCapacityOptimized))
        }
        AllocationStrategy::CapacityOptimizedPrioritized => {
            input.spot_options(spot(types::SpotAllocationStrategy::CapacityOptimizedPrioritized))
        }
        AllocationStrategy::LowestPrice => {
            input.on_demand_options(on_demand(types::FleetOnDemandAllocationStrategy::LowestPrice))
        }
        AllocationStrategy::Prioritized => {
            input.on_demand_options(on_demand(types::FleetOnDemandAllocationStrategy::Prioritized))
        }
        AllocationStrategy::InterruptibleReservation => input.reserved_capacity_options(
            types::ReservedCapacityOptionsRequest::builder()
                .reservation_types(types::FleetReservationType::InterruptibleCapacityReservation)
                .build(),
        ),
        AllocationStrategy::None => input,
    }
}

fn on_demand(strategy: types::FleetOnDemandAllocationStrategy) -> types::OnDemandOptionsRequest {
    types::OnDemandOptionsRequest::builder()
        .allocation_strategy(strategy)
        .build()
}

/// The CreateFleet call that is only tried.
pub(super) fn fleet_dry_run(request: &FleetDryRun) -> CreateFleetInputBuilder {
    let overrides = request.subnet_ids.iter().map(|subnet| {
        types::FleetLaunchTemplateOverridesRequest::builder()
            .instance_type(request.instance_type.as_str().into())
            .subnet_id(subnet)
            .build()
    });
    fleet(vec![config(&request.template_name, overrides)], "on-demand", 1)
        .dry_run(true)
        .on_demand_options(on_demand(types::FleetOnDemandAllocationStrategy::LowestPrice))
        .set_tag_specifications(Some(tag_specifications(&request.tags)))
}

/// The RunInstances call that is only tried.
pub(super) fn instances_dry_run(request: &InstancesDryRun) -> RunInstancesInputBuilder {
    let template = types::LaunchTemplateSpecification::builder()
        .launch_template_name(&request.template_name)
        .version(LATEST)
        .build();
    let interfaces = request.interfaces.iter().map(|one| interface(one, &request.subnet_id));
    RunInstancesInput::builder()
        .dry_run(true)
        .min_count(1)
        .max_count(1)
        .launch_template(template)
        .instance_type(request.instance_type.as_str().into())
        .set_network_interfaces(Some(interfaces.collect()))
        .set_tag_specifications(Some(tag_specifications(&request.tags)))
}

fn interface(request: &InterfaceRequest, subnet: &str) -> types::InstanceNetworkInterfaceSpecification {
    types::InstanceNetworkInterfaceSpecification::builder()
        .subnet_id(subnet)
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

/// What a fleet launched, one entry for each instance, and the overrides that failed.
pub(super) fn fleet_answer(answer: &CreateFleetOutput) -> FleetAnswer {
    let instances = answer.instances().iter().flat_map(|one| {
        let used = one.launch_template_and_overrides().and_then(|used| used.overrides());
        let instance_type = one.instance_type().map(types::InstanceType::as_str);
        let zone = used
            .and_then(|used| used.availability_zone())
            .or(one.availability_zone());
        let outcome = move |id: &String| FleetOutcome {
            instance_id: id.clone(),
            instance_type: text(instance_type),
            image_id: text(used.and_then(|used| used.image_id())),
            zone: text(zone),
            subnet_id: used.and_then(|used| used.subnet_id()).map(str::to_owned),
        };
        one.instance_ids().iter().map(outcome)
    });
    let errors = answer.errors().iter().map(|one| {
        let used = one.launch_template_and_overrides().and_then(|used| used.overrides());
        FleetError {
            error: ApiError::new(
                one.error_code().unwrap_or_default(),
                one.error_message().unwrap_or_default(),
            ),
            instance_type: text(
                used.and_then(|used| used.instance_type())
                    .map(types::InstanceType::as_str),
            ),
            zone: text(used.and_then(|used| used.availability_zone())),
            subnet_id: used.and_then(|used| used.subnet_id()).map(str::to_owned),
        }
    });
    FleetAnswer {
        instances: instances.collect(),
        errors: errors.collect(),
    }
}
