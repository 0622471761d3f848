//! How many pods a node can have (AWS-201 to AWS-203, AWS-497).

use super::description::InstanceTypeDescription;
use kerf_api::ec2_node_class::{AmiFamily, InterfaceType, KubeletConfiguration, NetworkInterface};

/// Pods of a node whose number no network interface limits.
const UNLIMITED_BY_INTERFACES: i64 = 110;

/// How a family counts pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FamilyPodRules {
    /// Whether the network interfaces limit the pods.
    pub limited_by_interfaces: bool,
    /// Whether `podsPerCore` counts.
    pub pods_per_core: bool,
    /// Whether the memory reserved for kubelet follows the limit by interfaces rather than the actual number of pods.
    pub overhead_by_interfaces: bool,
}

/// The rules of a family.
pub const fn family_pod_rules(family: AmiFamily) -> FamilyPodRules {
    let (limited_by_interfaces, pods_per_core, overhead_by_interfaces) = match family {
        AmiFamily::Al2 | AmiFamily::Al2023 | AmiFamily::Custom => (true, true, true),
        AmiFamily::Bottlerocket => (true, false, false),
        AmiFamily::Windows2019 | AmiFamily::Windows2022 | AmiFamily::Windows2025 => (false, true, false),
    };
    FamilyPodRules {
        limited_by_interfaces,
        pods_per_core,
        overhead_by_interfaces,
    }
}

/// Pods the network interfaces of the default card have addresses for. Reserved interfaces and EFA-only ones on the first card carry no
/// pods; without any interface left there is no pod at all. Prefixes are not counted: users of prefix delegation set `maxPods`.
pub fn eni_limited_pods(
    description: &InstanceTypeDescription,
    reserved_interfaces: i64,
    interfaces: &[NetworkInterface],
) -> i64 {
    let Some(network) = &description.network else {
        return 0;
    };
    let is_efa_only =
        |one: &&NetworkInterface| one.network_card_index == 0 && one.interface_type == InterfaceType::EfaOnly;
    let efa_only = i64::try_from(interfaces.iter().filter(is_efa_only).count()).unwrap_or(i64::MAX);
    let usable = network
        .default_card_interfaces()
        .saturating_sub(reserved_interfaces)
        .saturating_sub(efa_only);
    if usable <= 0 {
        return 0;
    }
    usable * (network.ipv4_per_interface - 1) + 2
}

/// The pods of a node.
pub fn pods(
    description: &InstanceTypeDescription,
    family: AmiFamily,
    kubelet: &KubeletConfiguration,
    reserved_interfaces: i64,
    interfaces: &[NetworkInterface],
) -> i64 {
    let rules = family_pod_rules(family);
    let count = match kubelet.max_pods_count() {
        Some(max) => i64::from(max),
        None if rules.limited_by_interfaces => eni_limited_pods(description, reserved_interfaces, interfaces),
        None => UNLIMITED_BY_INTERFACES,
    };
    match kubelet.pods_per_core {
        Some(per_core) if per_core > 0 && rules.pods_per_core => {
            count.min(i64::from(per_core).saturating_mul(description.vcpus))
        }
        _ => count,
    }
}
