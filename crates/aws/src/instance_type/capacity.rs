//! What a node of a type has (AWS-198 to AWS-206).

use super::description::InstanceTypeDescription;
use super::pods::pods;
use super::resolve::ResolveSettings;
use super::storage::ephemeral_storage_bytes;
use crate::resources;
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{AmiFamily, InterfaceType};
use kerf_model::intern::{Interner, sym};
use kerf_model::resources::Resources;

const MIB: i64 = 1 << 20;
/// Memory that the firmware of arm64 machines keeps.
const ARM_FIRMWARE_MIB: i64 = 64;

/// Bytes of memory that a node is expected to have: what is advertised, less what firmware and hypervisor keep. The hypervisor's part is a
/// guess, `overhead_percent` of the rest, in whole MiB rounded up (AWS-484).
pub fn memory_bytes(description: &InstanceTypeDescription, overhead_percent: f64) -> i64 {
    let is_arm = description.architectures.first().is_some_and(|name| name == "arm64");
    let firmware_mib = if is_arm { ARM_FIRMWARE_MIB } else { 0 };
    let left = (description.memory_mib - firmware_mib).saturating_mul(MIB);
    let hypervisor_mib = (left as f64 * overhead_percent / 1024.0 / 1024.0).ceil() as i64;
    left - hypervisor_mib.saturating_mul(MIB)
}

/// EFA interfaces a pod can request: those the class attaches, or as many as the type can have (AWS-206).
pub fn efa_max(description: &InstanceTypeDescription, spec: &EC2NodeClassSpec) -> i64 {
    match &spec.network_interfaces {
        Some(interfaces) => {
            let efa_only = interfaces
                .iter()
                .filter(|one| one.interface_type == InterfaceType::EfaOnly);
            i64::try_from(efa_only.count()).unwrap_or(i64::MAX)
        }
        None => description
            .network
            .as_ref()
            .and_then(|network| network.efa_max)
            .unwrap_or(0),
    }
}

/// GPUs of a manufacturer in EC2's spelling.
fn gpus(description: &InstanceTypeDescription, manufacturer: &str) -> i64 {
    let of_maker = description.gpus.iter().filter(|gpu| gpu.manufacturer == manufacturer);
    of_maker.map(|gpu| gpu.count).sum()
}

/// The capacity of a node. Resources a type has none of are left out. `discovered_memory` is what nodes of this type and image reported,
/// which replaces the estimate (AWS-199).
pub fn capacity(
    description: &InstanceTypeDescription,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
    settings: &ResolveSettings,
    discovered_memory: Option<i64>,
    interner: &Interner,
) -> Resources {
    let kubelet = spec.kubelet();
    let memory = discovered_memory.unwrap_or_else(|| memory_bytes(description, settings.vm_memory_overhead_percent));
    let pods = pods(description, family, &kubelet, settings.reserved_enis, spec.interfaces());
    let mut capacity = Resources::new()
        .with(sym::CPU, description.vcpus.saturating_mul(1000))
        .with(sym::MEMORY, memory)
        .with(sym::PODS, pods)
        .with(
            sym::EPHEMERAL_STORAGE,
            ephemeral_storage_bytes(description, spec, family),
        );
    let cores = description
        .neuron
        .first()
        .map(|neuron| neuron.count * neuron.cores_per_device);
    let windows_addresses = || {
        description
            .limit_ipv4_per_interface
            .map_or(0, |addresses| addresses - 1)
    };
    let runs_windows = family.is_windows() && super::architecture(description) == Some("amd64");
    let extended = [
        (resources::NVIDIA_GPU, gpus(description, "NVIDIA")),
        (resources::AMD_GPU, gpus(description, "AMD")),
        (resources::HABANA_GAUDI, gpus(description, "Habana")),
        (
            resources::NEURON,
            description.neuron.iter().map(|neuron| neuron.count).sum(),
        ),
        (resources::NEURON_CORE, cores.unwrap_or(0)),
        (resources::POD_ENI, description.branch_interfaces),
        (resources::EFA, efa_max(description, spec)),
        (
            resources::PRIVATE_IPV4_ADDRESS,
            if runs_windows { windows_addresses() } else { 0 },
        ),
    ];
    for (name, amount) in extended.into_iter().filter(|(_, amount)| *amount > 0) {
        capacity.set(interner.intern(name), amount);
    }
    capacity
}
