//! Real EC2 types of us-east-1 as the AWS provider would present them, with modelled spot prices (see `data/README.md`).
//!
//! Labels, capacity and overhead follow AWS-183 to AWS-211 for Amazon Linux 2023 with default kubelet settings; the labels of KWOK types
//! are there as well, so that pools written for either provider work.

use kerf_api::labels::kwok;
use kerf_cloud::{modelled_spot_price, plain_offering};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;
use std::sync::Arc;

const DATA: &str = include_str!("../data/ec2_us_east_1.csv");
const REGION: &str = "us-east-1";
const ZONES: [&str; 4] = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d"];

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;
/// What the firmware of arm64 machines takes (AWS-198).
const ARM_DEDUCTION_MIB: i64 = 64;
/// What the hypervisor takes, in thousandths (AWS-198).
const VM_OVERHEAD_PER_MILLE: i64 = 75;
/// The default root volume (AWS-204).
const ROOT_VOLUME: i64 = 20 * GIB;

/// The columns of the data, in order.
#[derive(Clone, Copy)]
enum Column {
    Name,
    Category,
    Generation,
    Arch,
    Flex,
    Hypervisor,
    CpuManufacturer,
    Vcpu,
    ClockMhz,
    MemoryMib,
    NetworkMbps,
    EbsMbps,
    Encryption,
    LocalNvmeGb,
    GpuName,
    GpuManufacturer,
    GpuCount,
    GpuMemoryMib,
    AcceleratorName,
    AcceleratorManufacturer,
    AcceleratorCount,
    NeuronCores,
    Efa,
    BranchInterfaces,
    Pods,
    OnDemand,
}

const COLUMNS: usize = Column::OnDemand as usize + 1;

/// Labels that a column gives; an empty cell means that the label does not exist (AWS-183 to AWS-188).
const LABELS: [(&str, Column); 18] = [
    ("karpenter.k8s.aws/instance-category", Column::Category),
    ("karpenter.k8s.aws/instance-generation", Column::Generation),
    ("karpenter.k8s.aws/instance-cpu", Column::Vcpu),
    ("karpenter.k8s.aws/instance-memory", Column::MemoryMib),
    ("karpenter.k8s.aws/instance-hypervisor", Column::Hypervisor),
    (
        "karpenter.k8s.aws/instance-encryption-in-transit-supported",
        Column::Encryption,
    ),
    ("karpenter.k8s.aws/instance-capability-flex", Column::Flex),
    ("karpenter.k8s.aws/instance-cpu-manufacturer", Column::CpuManufacturer),
    (
        "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz",
        Column::ClockMhz,
    ),
    ("karpenter.k8s.aws/instance-network-bandwidth", Column::NetworkMbps),
    ("karpenter.k8s.aws/instance-ebs-bandwidth", Column::EbsMbps),
    ("karpenter.k8s.aws/instance-local-nvme", Column::LocalNvmeGb),
    ("karpenter.k8s.aws/instance-gpu-name", Column::GpuName),
    ("karpenter.k8s.aws/instance-gpu-manufacturer", Column::GpuManufacturer),
    ("karpenter.k8s.aws/instance-gpu-count", Column::GpuCount),
    ("karpenter.k8s.aws/instance-gpu-memory", Column::GpuMemoryMib),
    ("karpenter.k8s.aws/instance-accelerator-name", Column::AcceleratorName),
    (
        "karpenter.k8s.aws/instance-accelerator-manufacturer",
        Column::AcceleratorManufacturer,
    ),
];
const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
const FAMILY: &str = "karpenter.k8s.aws/instance-family";
const SIZE: &str = "karpenter.k8s.aws/instance-size";
const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";

/// The catalogue; building it takes a few milliseconds.
pub fn ec2_catalogue(interner: &Interner) -> Arc<Catalogue> {
    let ids = Ids::new(interner);
    let types = DATA
        .lines()
        .skip(1)
        .filter_map(Row::read)
        .map(|row| ids.build(&row))
        .collect();
    Arc::new(Catalogue { types })
}

/// One line of the data.
struct Row<'a>([&'a str; COLUMNS]);

impl<'a> Row<'a> {
    fn read(line: &'a str) -> Option<Self> {
        let mut row = [""; COLUMNS];
        let mut cells = line.split(',');
        for cell in &mut row {
            *cell = cells.next()?;
        }
        Some(Self(row))
    }

    #[expect(clippy::indexing_slicing, reason = "a row has a cell for every column")]
    fn text(&self, column: Column) -> &'a str {
        self.0[column as usize]
    }

    fn number(&self, column: Column) -> i64 {
        self.text(column).parse().unwrap_or(0)
    }

    /// The memory the kernel sees, in bytes (AWS-198).
    fn memory(&self) -> i64 {
        let firmware = if self.text(Column::Arch) == "arm64" {
            ARM_DEDUCTION_MIB
        } else {
            0
        };
        let usable = self.number(Column::MemoryMib) - firmware;
        (usable - (usable * VM_OVERHEAD_PER_MILLE + 999) / 1000) * MIB
    }

    fn on_demand(&self) -> Price {
        self.text(Column::OnDemand)
            .parse()
            .ok()
            .and_then(Price::from_per_hour)
            .unwrap_or(Price::MAX)
    }
}

/// Everything that is the same for all types, interned once.
struct Ids<'a> {
    interner: &'a Interner,
    labels: Vec<(Sym, Column)>,
    family: Sym,
    size: Sym,
    kwok: [Sym; 4],
    /// Requirements of every type.
    shared: Requirements,
    zones: Vec<Sym>,
    resources: Vec<(Sym, ResourceOf)>,
}

/// How many of an extended resource a type has (AWS-205, AWS-206).
type ResourceOf = fn(&Row<'_>) -> i64;

const EXTENDED: [(&str, ResourceOf); 6] = [
    ("nvidia.com/gpu", |row| gpus(row, "nvidia")),
    ("habana.ai/gaudi", |row| gpus(row, "habana")),
    ("aws.amazon.com/neuron", |row| row.number(Column::AcceleratorCount)),
    ("aws.amazon.com/neuroncore", |row| row.number(Column::NeuronCores)),
    ("vpc.amazonaws.com/pod-eni", |row| row.number(Column::BranchInterfaces)),
    ("vpc.amazonaws.com/efa", |row| row.number(Column::Efa)),
];

fn gpus(row: &Row<'_>, manufacturer: &str) -> i64 {
    if row.text(Column::GpuManufacturer) == manufacturer {
        row.number(Column::GpuCount)
    } else {
        0
    }
}

impl<'a> Ids<'a> {
    fn new(interner: &'a Interner) -> Self {
        let id = |text: &str| interner.intern(text);
        let zones: Vec<Sym> = ZONES.iter().map(|zone| id(zone)).collect();
        let tenancies = [id("default"), id("dedicated")];
        let mut shared = Requirements::new();
        for requirement in [
            Requirement::is(sym::OS, id("linux")),
            Requirement::is(sym::REGION, id(REGION)),
            Requirement::any_of(sym::ZONE, zones.iter().copied()),
            Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::SPOT]),
            Requirement::does_not_exist(sym::WINDOWS_BUILD),
            Requirement::any_of(id(TENANCY), tenancies),
        ] {
            shared.replace(requirement);
        }
        let mut labels: Vec<_> = LABELS.iter().map(|(key, column)| (id(key), *column)).collect();
        labels.push((id(ACCELERATOR_COUNT), Column::AcceleratorCount));
        labels.push((sym::INSTANCE_TYPE, Column::Name));
        labels.push((sym::ARCH, Column::Arch));
        Self {
            interner,
            labels,
            family: id(FAMILY),
            size: id(SIZE),
            kwok: [
                kwok::INSTANCE_FAMILY,
                kwok::INSTANCE_SIZE,
                kwok::INSTANCE_CPU,
                kwok::INSTANCE_MEMORY,
            ]
            .map(id),
            shared,
            zones,
            resources: EXTENDED.iter().map(|(name, amount)| (id(name), *amount)).collect(),
        }
    }

    fn build(&self, row: &Row<'_>) -> InstanceType {
        InstanceType {
            name: self.interner.intern(row.text(Column::Name)),
            requirements: self.requirements(row),
            capacity: self.capacity(row),
            overhead: overhead(row),
            offerings: self.offerings(row),
            price_overlaid: false,
            capacity_overlaid: false,
        }
    }

    fn requirements(&self, row: &Row<'_>) -> Requirements {
        let mut requirements = self.shared.clone();
        for (key, column) in &self.labels {
            let text = row.text(*column);
            requirements.replace(match text {
                "" => Requirement::does_not_exist(*key),
                text => Requirement::is(*key, self.interner.intern(text)),
            });
        }
        let name = row.text(Column::Name);
        let (family, size) = name.split_once('.').unwrap_or((name, ""));
        let (family, size) = (self.interner.intern(family), self.interner.intern(size));
        let memory = Quantity::from_bytes(row.number(Column::MemoryMib) * MIB).to_string();
        let kwok = [
            family,
            size,
            self.interner.intern(row.text(Column::Vcpu)),
            self.interner.intern(&memory),
        ];
        let own = [(self.family, family), (self.size, size)];
        for (key, value) in self.kwok.into_iter().zip(kwok).chain(own) {
            requirements.replace(Requirement::is(key, value));
        }
        requirements
    }

    /// AWS-198, AWS-202, AWS-204 to AWS-206; what there is none of is not named.
    fn capacity(&self, row: &Row<'_>) -> Resources {
        let mut capacity = Resources::new()
            .with(sym::CPU, row.number(Column::Vcpu) * 1000)
            .with(sym::MEMORY, row.memory())
            .with(sym::PODS, row.number(Column::Pods))
            .with(sym::EPHEMERAL_STORAGE, ROOT_VOLUME);
        for (name, amount) in &self.resources {
            match amount(row) {
                0 => {}
                amount => capacity.set(*name, amount),
            }
        }
        capacity
    }

    /// On demand and spot in every zone.
    fn offerings(&self, row: &Row<'_>) -> Vec<Offering> {
        let on_demand = row.on_demand();
        let name = row.text(Column::Name);
        let zones = self.zones.iter().zip(ZONES);
        let both = zones.flat_map(|(zone, text)| {
            [
                plain_offering(*zone, sym::ON_DEMAND, on_demand),
                plain_offering(*zone, sym::SPOT, modelled_spot_price(name, text, on_demand)),
            ]
        });
        both.collect()
    }
}

/// Kubelet's reservation and the eviction threshold (AWS-207 to AWS-210).
fn overhead(row: &Row<'_>) -> Resources {
    let cores = row.number(Column::Vcpu);
    let part = |from: i64, to: i64, per_hundred_thousand: i64| {
        let cores = (cores.min(to) - from).max(0);
        cores * 1000 * per_hundred_thousand / 100_000
    };
    let cpu = part(0, 1, 6_000) + part(1, 2, 1_000) + part(2, 4, 500) + part(4, i64::MAX, 250);
    let reserved_mib = 11 * row.number(Column::Pods) + 255;
    let eviction_mib = 100;
    Resources::new()
        .with(sym::CPU, cpu)
        .with(sym::MEMORY, (reserved_mib + eviction_mib) * MIB)
        .with(sym::EPHEMERAL_STORAGE, GIB + ROOT_VOLUME / 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::instance_type::allocatable;

    fn find<'a>(catalogue: &'a Catalogue, interner: &Interner, name: &str) -> &'a InstanceType {
        let named = catalogue.types.iter().find(|kind| interner.text(kind.name) == name);
        named.expect("a type of the data")
    }

    fn label<'a>(kind: &InstanceType, interner: &'a Interner, key: &str) -> Option<&'a str> {
        let value = kind.requirements.get(interner.get(key)?)?.single()?;
        Some(interner.text(value))
    }

    #[test]
    fn allocatable_is_what_the_aws_provider_computes() {
        let interner = Interner::default();
        let catalogue = ec2_catalogue(&interner);
        for (name, cpu_milli, memory_mib) in [
            ("m5.large", 1930, 6903),
            ("t3.large", 1930, 6837),
            ("m6g.large", 1930, 6844),
            ("c7i.4xlarge", 15890, 27381),
            ("g5.xlarge", 3920, 14162),
        ] {
            let kind = find(&catalogue, &interner, name);
            let left = allocatable(&kind.capacity, &kind.overhead, |_| false);
            assert_eq!(
                (left.get(sym::CPU), left.get(sym::MEMORY) / MIB),
                (cpu_milli, memory_mib),
                "{name}"
            );
            assert_eq!(left.get(sym::EPHEMERAL_STORAGE), 17 * GIB, "{name}");
        }
    }

    #[test]
    fn labels_say_what_a_type_is_and_what_it_lacks() {
        let interner = Interner::default();
        let catalogue = ec2_catalogue(&interner);
        let gpu = find(&catalogue, &interner, "g4dn.8xlarge");
        for (key, value) in [
            ("karpenter.k8s.aws/instance-family", "g4dn"),
            ("karpenter.k8s.aws/instance-cpu", "32"),
            ("karpenter.k8s.aws/instance-memory", "131072"),
            ("karpenter.k8s.aws/instance-network-bandwidth", "50000"),
            ("karpenter.k8s.aws/instance-gpu-name", "t4"),
            ("karpenter.k8s.aws/instance-gpu-memory", "16384"),
            ("karpenter.k8s.aws/instance-local-nvme", "900"),
            ("kubernetes.io/arch", "amd64"),
            ("topology.kubernetes.io/region", "us-east-1"),
            ("karpenter.kwok.sh/instance-memory", "128Gi"),
        ] {
            assert_eq!(label(gpu, &interner, key), Some(value), "{key}");
        }
        assert_eq!(gpu.capacity.get(interner.intern("nvidia.com/gpu")), 1);
        let graviton = find(&catalogue, &interner, "m7g.large");
        assert_eq!(label(graviton, &interner, "kubernetes.io/arch"), Some("arm64"));
        let absent = interner.intern("karpenter.k8s.aws/instance-gpu-name");
        assert!(
            graviton
                .requirements
                .get(absent)
                .is_some_and(Requirement::is_does_not_exist)
        );
        let neuron = find(&catalogue, &interner, "inf2.48xlarge");
        assert_eq!(neuron.capacity.get(interner.intern("aws.amazon.com/neuroncore")), 24);
    }

    #[test]
    fn every_type_has_a_price_and_spot_is_cheaper_everywhere() {
        let interner = Interner::default();
        let catalogue = ec2_catalogue(&interner);
        assert_eq!(catalogue.types.len() + 1, DATA.lines().count());
        for kind in &catalogue.types {
            assert_eq!(kind.offerings.len(), 2 * ZONES.len());
            for pair in kind.offerings.chunks(2) {
                let (on_demand, spot) = (pair[0].price, pair[1].price);
                assert!(
                    Price::ZERO < spot && spot < on_demand && on_demand < Price::MAX,
                    "{:?}",
                    kind.name
                );
            }
        }
        let spot = find(&catalogue, &interner, "m5.large").offerings[1].price;
        assert_eq!(ec2_catalogue(&Interner::default()).types.len(), catalogue.types.len());
        assert_eq!(
            spot,
            modelled_spot_price(
                "m5.large",
                "us-east-1a",
                Price::from_per_hour(0.096).unwrap_or_default()
            )
        );
    }
}
