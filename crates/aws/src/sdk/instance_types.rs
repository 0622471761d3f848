//! Instance types as EC2 describes them.

use super::values::{count, text};
use crate::instance_type::{
    AcceleratorDescription, GpuDescription, InstanceTypeDescription, LocalStorage, NetworkCard, NetworkDescription,
    NeuronDescription, UsageClass, builtin_types,
};
use aws_sdk_ec2::types;

/// A description. What EC2 does not say is taken from the published limits that are built in.
pub(super) fn description(from: &types::InstanceTypeInfo) -> Option<InstanceTypeDescription> {
    let name = from.instance_type()?.as_str().to_owned();
    let limits = builtin_types().get(&name);
    let processor = from.processor_info();
    let storage = from.instance_storage_info();
    let placement = from.placement_group_info();
    Some(InstanceTypeDescription {
        architectures: names(
            processor.map(types::ProcessorInfo::supported_architectures),
            types::ArchitectureType::as_str,
        ),
        usage_classes: from.supported_usage_classes().iter().filter_map(usage_class).collect(),
        vcpus: count(from.v_cpu_info().and_then(types::VCpuInfo::default_v_cpus)),
        clock_ghz: processor.and_then(types::ProcessorInfo::sustained_clock_speed_in_ghz),
        cpu_manufacturer: processor
            .and_then(types::ProcessorInfo::manufacturer)
            .map(str::to_owned),
        processor_features: names(
            processor.map(types::ProcessorInfo::supported_features),
            types::SupportedAdditionalProcessorFeature::as_str,
        ),
        memory_mib: from.memory_info().and_then(types::MemoryInfo::size_in_mib).unwrap_or(0),
        hypervisor: from.hypervisor().map(|one| one.as_str().to_owned()),
        ebs_mbps: from.ebs_info().and_then(ebs_mbps),
        local_storage: storage.map(|storage| LocalStorage {
            total_gb: storage.total_size_in_gb().unwrap_or(0),
            is_nvme: storage.nvme_support() != Some(&types::EphemeralNvmeSupport::Unsupported),
        }),
        gpus: from
            .gpu_info()
            .map(types::GpuInfo::gpus)
            .unwrap_or_default()
            .iter()
            .map(gpu)
            .collect(),
        inference_accelerators: from
            .inference_accelerator_info()
            .map(types::InferenceAcceleratorInfo::accelerators)
            .unwrap_or_default()
            .iter()
            .map(accelerator)
            .collect(),
        neuron: from
            .neuron_info()
            .map(types::NeuronInfo::neuron_devices)
            .unwrap_or_default()
            .iter()
            .map(neuron)
            .collect(),
        network: from.network_info().map(network),
        placement_strategies: names(
            placement.map(types::PlacementGroupInfo::supported_strategies),
            types::PlacementGroupStrategy::as_str,
        ),
        network_mbps: limits.and_then(|limits| limits.network_mbps),
        branch_interfaces: limits.map_or(0, |limits| limits.branch_interfaces),
        limit_ipv4_per_interface: limits.and_then(|limits| limits.limit_ipv4_per_interface),
        name,
    })
}

/// The names of enumerated values.
fn names<T>(values: Option<&[T]>, name: fn(&T) -> &str) -> Vec<String> {
    values
        .unwrap_or_default()
        .iter()
        .map(|one| name(one).to_owned())
        .collect()
}

fn usage_class(from: &types::UsageClassType) -> Option<UsageClass> {
    match from.as_str() {
        "on-demand" => Some(UsageClass::OnDemand),
        "spot" => Some(UsageClass::Spot),
        "capacity-block" => Some(UsageClass::CapacityBlock),
        _ => None,
    }
}

/// AWS-187: only of types that are EBS-optimised by default.
fn ebs_mbps(from: &types::EbsInfo) -> Option<i64> {
    let is_default = from.ebs_optimized_support() == Some(&types::EbsOptimizedSupport::Default);
    let info = from.ebs_optimized_info().filter(|_| is_default)?;
    info.maximum_bandwidth_in_mbps().map(i64::from)
}

fn gpu(from: &types::GpuDeviceInfo) -> GpuDescription {
    GpuDescription {
        name: text(from.name()),
        manufacturer: text(from.manufacturer()),
        count: count(from.count()),
        memory_mib: count(from.memory_info().and_then(types::GpuDeviceMemoryInfo::size_in_mib)),
    }
}

fn accelerator(from: &types::InferenceDeviceInfo) -> AcceleratorDescription {
    AcceleratorDescription {
        name: text(from.name()),
        manufacturer: text(from.manufacturer()),
        count: count(from.count()),
    }
}

fn neuron(from: &types::NeuronDeviceInfo) -> NeuronDescription {
    NeuronDescription {
        name: text(from.name()),
        count: count(from.count()),
        cores_per_device: count(from.core_info().and_then(types::NeuronDeviceCoreInfo::count)),
    }
}

fn network(from: &types::NetworkInfo) -> NetworkDescription {
    let card = |one: &types::NetworkCardInfo| NetworkCard {
        index: one.network_card_index().unwrap_or(0),
        interfaces_max: count(one.maximum_network_interfaces()),
    };
    NetworkDescription {
        ena: from
            .ena_support()
            .is_some_and(|one| *one != types::EnaSupport::Unsupported),
        encryption_in_transit: from.encryption_in_transit_supported().unwrap_or(false),
        cards: from.network_cards().iter().map(card).collect(),
        default_card: from.default_network_card_index().unwrap_or(0),
        ipv4_per_interface: count(from.ipv4_addresses_per_interface()),
        efa_max: from
            .efa_info()
            .and_then(types::EfaInfo::maximum_efa_interfaces)
            .map(i64::from),
    }
}
