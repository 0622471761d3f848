//! What EC2 says of an instance type, and the networking limits that EC2 does not say but the VPC controllers publish.

use serde::Deserialize;

/// How instances of a type can be bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UsageClass {
    /// At list price.
    OnDemand,
    /// Spare capacity that can be taken back.
    Spot,
    /// Blocks of capacity for a fixed time.
    CapacityBlock,
}

/// An instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InstanceTypeDescription {
    /// Name, such as `m5.large`.
    pub name: String,
    /// Architectures in EC2's names, such as `x86_64`; the first counts.
    pub architectures: Vec<String>,
    /// How it can be bought.
    pub usage_classes: Vec<UsageClass>,
    /// Default number of vCPUs.
    pub vcpus: i64,
    /// Sustained clock in GHz.
    pub clock_ghz: Option<f64>,
    /// Manufacturer of the processor.
    pub cpu_manufacturer: Option<String>,
    /// Additional features of the processor.
    pub processor_features: Vec<String>,
    /// Advertised memory in MiB.
    pub memory_mib: i64,
    /// `nitro` or `xen`; `None` for bare metal.
    pub hypervisor: Option<String>,
    /// Largest bandwidth to EBS in Mbit/s, for types that are EBS-optimised by default.
    pub ebs_mbps: Option<i64>,
    /// Local disks.
    pub local_storage: Option<LocalStorage>,
    /// GPUs by kind.
    pub gpus: Vec<GpuDescription>,
    /// Inference accelerators by kind.
    pub inference_accelerators: Vec<AcceleratorDescription>,
    /// Neuron devices by kind; empty for types without.
    pub neuron: Vec<NeuronDescription>,
    /// Network; `None` if EC2 says nothing of it.
    pub network: Option<NetworkDescription>,
    /// Strategies of placement groups it can be in.
    pub placement_strategies: Vec<String>,
    /// Baseline network bandwidth in Mbit/s, from the published limits.
    pub network_mbps: Option<i64>,
    /// Branch interfaces for security groups per pod, from the published limits; zero if it cannot have any.
    pub branch_interfaces: i64,
    /// IPv4 addresses of an interface, from the published limits.
    pub limit_ipv4_per_interface: Option<i64>,
}

/// Local disks of an instance type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalStorage {
    /// Size of all disks in GB.
    pub total_gb: i64,
    /// Whether they are NVMe disks.
    pub is_nvme: bool,
}

/// GPUs of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDescription {
    /// Name, such as `A10G`.
    pub name: String,
    /// Manufacturer, such as `NVIDIA`.
    pub manufacturer: String,
    /// Number of whole GPUs.
    pub count: i64,
    /// Memory of one GPU in MiB.
    pub memory_mib: i64,
}

/// Inference accelerators of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct AcceleratorDescription {
    /// Name.
    pub name: String,
    /// Manufacturer.
    pub manufacturer: String,
    /// Number of accelerators.
    pub count: i64,
}

/// Neuron devices of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NeuronDescription {
    /// Name, such as `Inferentia2`.
    pub name: String,
    /// Number of devices.
    pub count: i64,
    /// Cores of one device.
    pub cores_per_device: i64,
}

/// Network of an instance type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkDescription {
    /// Whether the elastic network adapter works.
    pub ena: bool,
    /// Whether traffic between instances is encrypted.
    pub encryption_in_transit: bool,
    /// Cards by index.
    pub cards: Vec<NetworkCard>,
    /// Index of the card that carries pod traffic.
    pub default_card: i32,
    /// IPv4 addresses of an interface, the primary one included.
    pub ipv4_per_interface: i64,
    /// Most EFA interfaces; `None` if it has none.
    pub efa_max: Option<i64>,
}

/// A network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkCard {
    /// Index of the card.
    pub index: i32,
    /// Most network interfaces on it.
    pub interfaces_max: i64,
}

impl NetworkDescription {
    /// A card by its index.
    pub fn card(&self, index: i32) -> Option<&NetworkCard> {
        self.cards.iter().find(|card| card.index == index)
    }

    /// Most interfaces of the default card; zero if EC2 does not describe it.
    pub fn default_card_interfaces(&self) -> i64 {
        self.card(self.default_card).map_or(0, |card| card.interfaces_max)
    }
}
