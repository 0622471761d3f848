//! The built-in descriptions: public facts about instance types and their limits, for decisions without a call of AWS.
//!
//! What the public tables do not say is assumed: every type can be bought on demand and as spot, has ENA, and can be in any placement group.

use super::description::{
    AcceleratorDescription, GpuDescription, InstanceTypeDescription, LocalStorage, NetworkCard, NetworkDescription,
    NeuronDescription, UsageClass,
};
use std::collections::BTreeMap;
use std::sync::LazyLock;

const TYPES: &str = include_str!("../../data/instance_types.csv");

/// The zones that classes without subnets are assumed to have.
pub const BUILTIN_ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

/// The types of the built-in table by name.
pub fn builtin_types() -> &'static BTreeMap<String, InstanceTypeDescription> {
    static READ: LazyLock<BTreeMap<String, InstanceTypeDescription>> = LazyLock::new(|| {
        let mut lines = TYPES.lines();
        let columns: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
        lines
            .map(|line| Row::new(&columns, line).read())
            .map(|description| (description.name.clone(), description))
            .collect()
    });
    &READ
}

/// One line of the table by column.
struct Row<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Row<'a> {
    fn new(columns: &[&'a str], line: &'a str) -> Self {
        Self(columns.iter().copied().zip(line.split(',')).collect())
    }

    /// The text of a column; empty if it is not there.
    fn text(&self, column: &str) -> &'a str {
        self.0.get(column).copied().unwrap_or_default()
    }

    fn number(&self, column: &str) -> Option<i64> {
        self.text(column).parse().ok()
    }

    fn read(&self) -> InstanceTypeDescription {
        let architecture = if self.text("arch") == "arm64" {
            "arm64"
        } else {
            "x86_64"
        };
        InstanceTypeDescription {
            name: self.text("instance_type").to_owned(),
            architectures: vec![architecture.to_owned()],
            usage_classes: vec![UsageClass::OnDemand, UsageClass::Spot],
            vcpus: self.number("vcpu").unwrap_or(0),
            clock_ghz: self.number("clock_mhz").map(|mhz| mhz as f64 / 1000.0),
            cpu_manufacturer: Some(self.text("cpu_manufacturer").to_owned()),
            processor_features: Vec::new(),
            memory_mib: self.number("memory_mib").unwrap_or(0),
            hypervisor: Some(self.text("hypervisor").to_owned()).filter(|text| !text.is_empty()),
            ebs_mbps: self.number("ebs_mbps"),
            local_storage: self.number("local_nvme_gb").map(|total_gb| LocalStorage {
                total_gb,
                is_nvme: true,
            }),
            gpus: self.gpus(),
            inference_accelerators: self.inference_accelerators(),
            neuron: self.neuron(),
            network: Some(self.network()),
            placement_strategies: ["cluster", "partition", "spread"].map(str::to_owned).into(),
            network_mbps: self.number("network_mbps"),
            branch_interfaces: self.number("branch_eni_max").unwrap_or(0),
            limit_ipv4_per_interface: self.number("ipv4_per_eni"),
        }
    }

    /// The table has names as labels show them, so that only the manufacturer needs EC2's spelling.
    fn gpus(&self) -> Vec<GpuDescription> {
        let manufacturer = match self.text("gpu_manufacturer") {
            "" => return Vec::new(),
            "nvidia" => "NVIDIA",
            "amd" => "AMD",
            "habana" => "Habana",
            other => other,
        };
        vec![GpuDescription {
            name: self.text("gpu_name").to_owned(),
            manufacturer: manufacturer.to_owned(),
            count: self.number("gpu_count").unwrap_or(0),
            memory_mib: self.number("gpu_memory_mib").unwrap_or(0),
        }]
    }

    fn accelerator(&self) -> Option<AcceleratorDescription> {
        let name = self.text("accelerator_name");
        (!name.is_empty()).then(|| AcceleratorDescription {
            name: name.to_owned(),
            manufacturer: self.text("accelerator_manufacturer").to_owned(),
            count: self.number("accelerator_count").unwrap_or(0),
        })
    }

    fn inference_accelerators(&self) -> Vec<AcceleratorDescription> {
        let others = self
            .accelerator()
            .filter(|accelerator| accelerator.manufacturer != "aws");
        others.into_iter().collect()
    }

    fn neuron(&self) -> Vec<NeuronDescription> {
        let own = self
            .accelerator()
            .filter(|accelerator| accelerator.manufacturer == "aws");
        own.map(|accelerator| NeuronDescription {
            cores_per_device: self.number("neuron_cores").unwrap_or(0) / accelerator.count.max(1),
            name: accelerator.name,
            count: accelerator.count,
        })
        .into_iter()
        .collect()
    }

    fn network(&self) -> NetworkDescription {
        let efa_max = self.number("efa_max").filter(|count| *count > 0);
        let (interfaces, addresses) = match (self.number("card0_eni_max"), self.number("ipv4_per_eni")) {
            (Some(interfaces), Some(addresses)) => (interfaces, addresses),
            _ => interfaces_for(self.number("max_pods_eni").unwrap_or(2)),
        };
        let cards = self.number("network_cards").unwrap_or(1).max(1);
        let others = self.number("eni_max").unwrap_or(interfaces) - interfaces;
        let on_each = if cards > 1 { others / (cards - 1) } else { 0 };
        let cards = (0..i32::try_from(cards).unwrap_or(1)).map(|index| NetworkCard {
            index,
            interfaces_max: if index == 0 { interfaces } else { on_each },
        });
        NetworkDescription {
            ena: true,
            encryption_in_transit: self.text("encryption_in_transit") == "true",
            cards: cards.collect(),
            default_card: 0,
            ipv4_per_interface: addresses,
            efa_max,
        }
    }
}

/// Interfaces and addresses that allow so many pods, for the few types whose limits are not published: the combination with the most
/// addresses that EC2 gives to other types.
fn interfaces_for(pods: i64) -> (i64, i64) {
    let products = [50, 30, 15, 10, 6, 4].into_iter();
    let fitting = products.filter(|addresses| (pods - 2) % (addresses - 1) == 0);
    let found = fitting
        .map(|addresses| ((pods - 2) / (addresses - 1), addresses))
        .next();
    found.unwrap_or((1, pods - 1))
}
