//! Whether nodes of a class can be of a type at all (AWS-192 to AWS-197). An incompatible type stays in the catalogue, without an available
//! offering.

use super::description::InstanceTypeDescription;
use crate::placement_group::PlacementGroup;
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{AmiFamily, InterfaceType, NetworkInterface};

/// Why a type does not go with a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incompatibility {
    /// The image family does not run on the type.
    #[error("Amazon Linux 2023 does not run on a1 instances")]
    Family,
    /// The type cannot have the network interfaces.
    #[error("the instance type cannot have the network interfaces of the class")]
    NetworkInterfaces,
    /// The type cannot run virtual machines.
    #[error("the instance type has no nested virtualization")]
    NestedVirtualization,
    /// The type cannot be in the placement group.
    #[error("the instance type does not support the strategy of the placement group")]
    PlacementGroup,
    /// The type has no Nitro hypervisor.
    #[error("connection tracking needs the Nitro hypervisor")]
    ConnectionTracking,
}

/// The first reason why a type does not go with a class; `None` if it does.
pub fn incompatibility(
    description: &InstanceTypeDescription,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
    group: Option<&PlacementGroup>,
) -> Option<Incompatibility> {
    let supports = |group: &PlacementGroup| {
        let strategies = &description.placement_strategies;
        strategies.iter().any(|strategy| strategy == group.strategy.as_str())
    };
    let virtualizes = || {
        let features = &description.processor_features;
        features.iter().any(|feature| feature == "nested-virtualization")
    };
    if let Some(interfaces) = &spec.network_interfaces
        && !takes(description, interfaces)
    {
        return Some(Incompatibility::NetworkInterfaces);
    }
    if family == AmiFamily::Al2023 && description.name.starts_with("a1.") {
        return Some(Incompatibility::Family);
    }
    if spec.wants_nested_virtualization() && !virtualizes() {
        return Some(Incompatibility::NestedVirtualization);
    }
    if group.is_some_and(|group| !supports(group)) {
        return Some(Incompatibility::PlacementGroup);
    }
    if spec.connection_tracking.is_some() && description.hypervisor.as_deref() != Some("nitro") {
        return Some(Incompatibility::ConnectionTracking);
    }
    None
}

/// Whether a type can have these interfaces.
fn takes(description: &InstanceTypeDescription, interfaces: &[NetworkInterface]) -> bool {
    let Some(network) = description.network.as_ref().filter(|network| network.ena) else {
        return false;
    };
    let fits = |one: &NetworkInterface| {
        let card = network.card(one.network_card_index);
        card.is_some_and(|card| i64::from(one.device_index) < card.interfaces_max)
    };
    let efa_only = interfaces
        .iter()
        .filter(|one| one.interface_type == InterfaceType::EfaOnly);
    let efa_only = i64::try_from(efa_only.count()).unwrap_or(i64::MAX);
    !network.cards.is_empty() && interfaces.iter().all(fits) && efa_only <= network.efa_max.unwrap_or(0)
}
