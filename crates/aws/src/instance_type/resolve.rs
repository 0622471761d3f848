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
use kerf_model::requirement::Requirements;
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
    let types = TypesOfClass::new(class, &kubelet, settings, interner);
    types.resolve(description, offered_in, discovered_memory, None)
}

/// Resolves types for a class. What all types have in common is computed once.
pub struct TypesOfClass<'a> {
    class: &'a EC2NodeClass,
    kubelet: &'a ClassKubelet,
    zones: ZoneView,
    settings: &'a ResolveSettings,
    interner: &'a Interner,
}

impl<'a> TypesOfClass<'a> {
    /// The types of a class with these kubelet settings of its own.
    pub fn new(
        class: &'a EC2NodeClass,
        kubelet: &'a ClassKubelet,
        settings: &'a ResolveSettings,
        interner: &'a Interner,
    ) -> Self {
        Self {
            class,
            kubelet,
            zones: ZoneView::new(&class.status.subnets),
            settings,
            interner,
        }
    }

    /// The type as nodes of the class would have it. `labels` are its labels where they are known from a class with the same
    /// ([`TypeKey::has_labels_of`]). A type that an expression gives nothing for has the defaults; no launch takes it.
    pub fn resolve(
        &self,
        description: &InstanceTypeDescription,
        offered_in: &BTreeSet<String>,
        discovered_memory: Option<i64>,
        labels: Option<&Requirements>,
    ) -> InstanceType {
        let Self {
            class,
            kubelet,
            settings,
            interner,
            ..
        } = self;
        let of_type = kubelet.has_expressions().then(|| {
            let kubelet = kubelet.of_type(description, &class.spec, settings.reserved_enis);
            EC2NodeClassSpec {
                kubelet: Some(kubelet.unwrap_or_else(|_| class.spec.kubelet().without_expressions())),
                ..class.spec.clone()
            }
        });
        let spec = of_type.as_ref().unwrap_or(&class.spec);
        let family = class.spec.effective_family();
        InstanceType {
            name: interner.intern(&description.name),
            requirements: labels.cloned().unwrap_or_else(|| self.labels(description, offered_in)),
            capacity: capacity(description, spec, family, settings, discovered_memory, interner),
            overhead: overhead(description, spec, family, settings, interner),
            offerings: Vec::new(),
            price_overlaid: false,
            capacity_overlaid: false,
        }
    }

    fn labels(&self, description: &InstanceTypeDescription, offered_in: &BTreeSet<String>) -> Requirements {
        let reservations: Vec<&NodeClassReservation> = self
            .class
            .status
            .capacity_reservations
            .iter()
            .filter(|reservation| self.settings.reserved_capacity && reservation.instance_type == description.name)
            .collect();
        requirements(
            description,
            &self.settings.region,
            offered_in,
            &self.zones,
            self.class.spec.effective_family(),
            &reservations,
            self.interner,
        )
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

    /// Whether types have the same labels for a class with this key as for one with the other.
    pub fn has_labels_of(&self, other: &Self) -> bool {
        self.zones == other.zones
            && self.family.windows_build() == other.family.windows_build()
            && self.reservations == other.reservations
    }
}
