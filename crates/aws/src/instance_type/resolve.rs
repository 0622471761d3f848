//! An instance type of the model from a description and a class, still without offerings.

use super::description::InstanceTypeDescription;
use super::labels::{ZoneView, requirements};
use super::{capacity, overhead};
use crate::instance_type::kubelet::ClassKubelet;
use kerf_api::ec2_node_class::{
    BlockDeviceMapping, InstanceStorePolicy, KubeletConfiguration, NetworkInterface, NodeClassAmi, NodeClassReservation,
};
use kerf_api::{EC2NodeClass, EC2NodeClassSpec};
use kerf_model::instance_type::InstanceType;
use kerf_model::intern::Interner;
use std::collections::BTreeSet;

/// Settings of the provider that instance types depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolveSettings {
    /// Region of the cluster.
    pub region: String,
    /// Part of memory that the hypervisor is expected to keep, such as 0.075.
    pub vm_memory_overhead_percent: f64,
    /// Network interfaces of each node that carry no pods.
    pub reserved_enis: i64,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
    /// Whether kubelet settings may be expressions.
    pub node_class_cel: bool,
}

impl ResolveSettings {
    /// The defaults of the options, in a region.
    pub fn new(region: &str) -> Self {
        Self {
            region: region.to_owned(),
            vm_memory_overhead_percent: 0.075,
            reserved_enis: 0,
            reserved_capacity: true,
            node_class_cel: false,
        }
    }
}

/// The type as nodes of a class would have it. A class with an expression that cannot be used counts as one without it: it is not ready.
pub fn resolve(
    description: &InstanceTypeDescription,
    class: &EC2NodeClass,
    offered_in: &BTreeSet<String>,
    discovered_memory: Option<i64>,
    settings: &ResolveSettings,
    interner: &Interner,
) -> InstanceType {
    let kubelet = ClassKubelet::usable(&class.spec, settings.node_class_cel);
    resolve_with(
        description,
        class,
        &kubelet,
        offered_in,
        discovered_memory,
        settings,
        interner,
    )
}

/// The same for a class whose kubelet settings were read before, since that takes longer than one type. A type that an expression gives
/// nothing for has the defaults; no launch takes it.
pub fn resolve_with(
    description: &InstanceTypeDescription,
    class: &EC2NodeClass,
    kubelet: &ClassKubelet,
    offered_in: &BTreeSet<String>,
    discovered_memory: Option<i64>,
    settings: &ResolveSettings,
    interner: &Interner,
) -> InstanceType {
    let of_type = kubelet.has_expressions().then(|| {
        let kubelet = kubelet.of_type(description, &class.spec, settings.reserved_enis);
        EC2NodeClassSpec {
            kubelet: Some(kubelet.unwrap_or_else(|_| class.spec.kubelet().without_expressions())),
            ..class.spec.clone()
        }
    });
    let spec = of_type.as_ref().unwrap_or(&class.spec);
    let family = class.spec.effective_family();
    let reservations: Vec<&NodeClassReservation> = class
        .status
        .capacity_reservations
        .iter()
        .filter(|reservation| settings.reserved_capacity && reservation.instance_type == description.name)
        .collect();
    let zones = ZoneView::new(&class.status.subnets);
    let requirements = requirements(
        description,
        &settings.region,
        offered_in,
        &zones,
        family,
        &reservations,
        interner,
    );
    InstanceType {
        name: interner.intern(&description.name),
        requirements,
        capacity: capacity(description, spec, family, settings, discovered_memory, interner),
        overhead: overhead(description, spec, family, settings, interner),
        offerings: Vec::new(),
        price_overlaid: false,
        capacity_overlaid: false,
    }
}

/// What of a class the resolved types depend on: classes with equal keys share them (AWS-180). The order of lists does not count.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeKey {
    family: kerf_api::AmiFamily,
    amis: Vec<NodeClassAmi>,
    zones: BTreeSet<(String, Option<String>)>,
    kubelet: KubeletConfiguration,
    disks: Vec<BlockDeviceMapping>,
    reservations: Vec<NodeClassReservation>,
    interfaces: Option<Vec<NetworkInterface>>,
    store: Option<InstanceStorePolicy>,
}

impl TypeKey {
    /// The key of a class.
    pub fn new(class: &EC2NodeClass) -> Self {
        let mut disks = class.spec.block_devices().to_vec();
        // Only the last disk of a custom image has a meaning by its position, and a class with such an image keeps the order.
        if class.spec.effective_family() != kerf_api::AmiFamily::Custom {
            disks.sort_by(|a, b| a.device_name.cmp(&b.device_name));
        }
        let mut amis = class.status.amis.clone();
        amis.sort_by(|a, b| a.id.cmp(&b.id));
        let mut reservations = class.status.capacity_reservations.clone();
        reservations.sort_by(|a, b| a.id.cmp(&b.id));
        let mut interfaces = class.spec.network_interfaces.clone();
        interfaces.iter_mut().for_each(|interfaces| interfaces.sort());
        let mut kubelet = class.spec.kubelet();
        kubelet.cluster_dns.iter_mut().for_each(|servers| servers.sort());
        Self {
            family: class.spec.effective_family(),
            amis,
            zones: class
                .status
                .subnets
                .iter()
                .map(|subnet| (subnet.zone.clone(), subnet.zone_id.clone()))
                .collect(),
            kubelet,
            disks,
            reservations,
            interfaces,
            store: class.spec.instance_store_policy,
        }
    }
}
