//! The labels of an instance type as requirements (AWS-181 to AWS-191).

use super::description::{InstanceTypeDescription, UsageClass};
use crate::labels as keys;
use kerf_api::ec2_node_class::{AmiFamily, NodeClassReservation, NodeClassSubnet};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::requirement::{Requirement, Requirements};
use std::collections::{BTreeMap, BTreeSet};

/// The zones of a class's subnets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneView {
    /// By zone: the zone's id, where it is known, and the class's subnets in it.
    zones: BTreeMap<String, (Option<String>, Vec<String>)>,
}

impl ZoneView {
    /// The zones of these subnets.
    pub fn new(subnets: &[NodeClassSubnet]) -> Self {
        let mut zones: BTreeMap<String, (Option<String>, Vec<String>)> = BTreeMap::new();
        for subnet in subnets {
            let (id, ids) = zones.entry(subnet.zone.clone()).or_default();
            if id.is_none() {
                id.clone_from(&subnet.zone_id);
            }
            ids.push(subnet.id.clone());
        }
        Self { zones }
    }

    /// Whether the class has a subnet in a zone.
    pub fn has(&self, zone: &str) -> bool {
        self.zones.contains_key(zone)
    }

    /// The id of a zone in which the class has a subnet.
    pub fn zone_id(&self, zone: &str) -> Option<&str> {
        self.zones.get(zone)?.0.as_deref()
    }

    /// The class's subnets in a zone.
    pub fn subnets(&self, zone: &str) -> &[String] {
        self.zones.get(zone).map_or(&[], |(_, subnets)| subnets)
    }

    /// The zones by name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.zones.keys().map(String::as_str)
    }
}

/// What the name of an instance type says (AWS-186).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameParts<'a> {
    /// Leading letters, such as `m`, and the generation, such as `5`; `None` for a name of another form.
    pub category_generation: Option<(&'a str, &'a str)>,
    /// Part before the dot and part after it; `None` unless there is exactly one dot.
    pub family_size: Option<(&'a str, &'a str)>,
}

/// Takes a name apart: `c7i-flex.large` has category `c`, generation `7`, family `c7i-flex` and size `large`.
pub fn name_parts(name: &str) -> NameParts<'_> {
    let split_while = |text: &'_ str, test: fn(&u8) -> bool| text.bytes().take_while(test).count();
    let (category, rest) = name.split_at(split_while(name, u8::is_ascii_lowercase));
    // High-memory families have their size in terabytes before the generation: u-6tb1.metal is generation 1.
    let after_size = rest.strip_prefix('-').and_then(|rest| {
        let (number, rest) = rest.split_at(split_while(rest, u8::is_ascii_digit));
        rest.strip_prefix("tb").filter(|_| !number.is_empty())
    });
    let rest = after_size.unwrap_or(rest);
    let (generation, _) = rest.split_at(split_while(rest, u8::is_ascii_digit));
    let known = !category.is_empty() && !generation.is_empty() && name.contains('.');
    let family_size = name.split_once('.').filter(|(_, size)| !size.contains('.'));
    NameParts {
        category_generation: known.then_some((category, generation)),
        family_size,
    }
}

/// The architecture in the names of Kubernetes: that of the first architecture it knows (AWS-190).
pub fn architecture(description: &InstanceTypeDescription) -> Option<&'static str> {
    description.architectures.iter().find_map(|name| match name.as_str() {
        "x86_64" => Some("amd64"),
        "arm64" => Some("arm64"),
        _ => None,
    })
}

/// Lower case with `-` for blanks, as label values have it (AWS-188).
fn label_value(text: &str) -> String {
    text.to_lowercase().replace(' ', "-")
}

/// Collects requirements; an absent value means that the label does not exist.
struct Collector<'a> {
    interner: &'a Interner,
    requirements: Requirements,
}

impl Collector<'_> {
    fn value(&mut self, key: &str, value: Option<&str>) {
        let key = self.interner.intern(key);
        self.requirements.replace(match value {
            Some(value) => Requirement::is(key, self.interner.intern(value)),
            None => Requirement::does_not_exist(key),
        });
    }

    fn number(&mut self, key: &str, value: Option<i64>) {
        let text = value.map(|value| value.to_string());
        self.value(key, text.as_deref());
    }

    fn values<'v>(&mut self, key: Sym, values: impl IntoIterator<Item = &'v str>) {
        let values: Vec<Sym> = values.into_iter().map(|value| self.interner.intern(value)).collect();
        self.requirements.replace(Requirement::any_of(key, values));
    }
}

/// The requirements of a type for a class with this family, these zones and these reservations of the type. `offered_in` are the zones that
/// offer the type.
pub fn requirements(
    description: &InstanceTypeDescription,
    region: &str,
    offered_in: &BTreeSet<String>,
    zones: &ZoneView,
    family: AmiFamily,
    reservations: &[&NodeClassReservation],
    interner: &Interner,
) -> Requirements {
    let mut all = Collector {
        interner,
        requirements: Requirements::new(),
    };
    let arch = architecture(description);
    let usable: Vec<&str> = zones.names().filter(|zone| offered_in.contains(*zone)).collect();
    all.values(sym::INSTANCE_TYPE, [description.name.as_str()]);
    all.values(sym::ARCH, arch);
    // Windows runs on amd64 alone; on other machines no operating system fits (AWS-182).
    let os = match (family.is_windows(), arch) {
        (false, _) => Some("linux"),
        (true, Some("amd64")) => Some("windows"),
        (true, _) => None,
    };
    all.values(sym::OS, os);
    all.values(sym::ZONE, usable.iter().copied());
    all.values(sym::REGION, [region]);
    all.values(sym::CAPACITY_TYPE, capacity_types(description, reservations));
    all.value(kerf_api::labels::WINDOWS_BUILD, family.windows_build());
    let ids: BTreeSet<&str> = usable.iter().filter_map(|zone| zones.zone_id(zone)).collect();
    if !ids.is_empty() {
        all.values(interner.intern(keys::ZONE_ID), ids);
    }
    machine(&mut all, description);
    accelerators(&mut all, description);
    reservation_labels(&mut all, reservations);
    all.requirements
}

fn capacity_types<'a>(
    description: &InstanceTypeDescription,
    reservations: &[&NodeClassReservation],
) -> impl Iterator<Item = &'a str> + use<'a> {
    let has = |class| description.usage_classes.contains(&class);
    let types = [
        (has(UsageClass::OnDemand), "on-demand"),
        (has(UsageClass::Spot), "spot"),
        (!reservations.is_empty(), "reserved"),
    ];
    types.into_iter().filter(|(offered, _)| *offered).map(|(_, name)| name)
}

fn machine(all: &mut Collector<'_>, description: &InstanceTypeDescription) {
    let parts = name_parts(&description.name);
    all.value(keys::CATEGORY, parts.category_generation.map(|(category, _)| category));
    all.value(
        keys::GENERATION,
        parts.category_generation.map(|(_, generation)| generation),
    );
    all.value(keys::FAMILY, parts.family_size.map(|(family, _)| family));
    all.value(keys::SIZE, parts.family_size.map(|(_, size)| size));
    let family = description.name.split('.').next().unwrap_or_default();
    all.value(
        keys::FLEX,
        Some(if family.contains("-flex") { "true" } else { "false" }),
    );
    all.number(keys::CPU, Some(description.vcpus));
    all.number(keys::MEMORY, Some(description.memory_mib));
    let manufacturer = description.cpu_manufacturer.as_deref().map(label_value);
    all.value(keys::CPU_MANUFACTURER, manufacturer.as_deref());
    let mhz = description.clock_ghz.map(|ghz| (ghz * 1000.0).round() as i64);
    all.number(keys::CPU_CLOCK_MHZ, mhz);
    all.number(keys::EBS_BANDWIDTH, description.ebs_mbps);
    all.number(keys::NETWORK_BANDWIDTH, description.network_mbps);
    let nvme = description.local_storage.filter(|storage| storage.is_nvme);
    all.number(keys::LOCAL_NVME, nvme.map(|storage| storage.total_gb));
    // Bare metal has no hypervisor: the label is empty, not absent.
    all.value(
        keys::HYPERVISOR,
        Some(description.hypervisor.as_deref().unwrap_or_default()),
    );
    let encrypted = description
        .network
        .as_ref()
        .is_some_and(|network| network.encryption_in_transit);
    all.value(
        keys::ENCRYPTION_IN_TRANSIT,
        Some(if encrypted { "true" } else { "false" }),
    );
    let tenancy = all.interner.intern(keys::TENANCY);
    all.values(tenancy, [keys::TENANCY_DEFAULT, keys::TENANCY_DEDICATED]);
}

/// Labels of GPUs and accelerators exist only for types with exactly one kind of them (AWS-188).
fn accelerators(all: &mut Collector<'_>, description: &InstanceTypeDescription) {
    let gpu = match description.gpus.as_slice() {
        [gpu] => Some(gpu),
        _ => None,
    };
    let text = |text: &str| label_value(text);
    all.value(keys::GPU_NAME, gpu.map(|gpu| text(&gpu.name)).as_deref());
    all.value(
        keys::GPU_MANUFACTURER,
        gpu.map(|gpu| text(&gpu.manufacturer)).as_deref(),
    );
    all.number(keys::GPU_COUNT, gpu.map(|gpu| gpu.count));
    all.number(keys::GPU_MEMORY, gpu.map(|gpu| gpu.memory_mib));
    let accelerator = match (
        description.neuron.as_slice(),
        description.inference_accelerators.as_slice(),
    ) {
        ([], [one]) => Some((text(&one.name), text(&one.manufacturer), one.count)),
        ([one], _) => Some((text(&one.name), "aws".to_owned(), one.count)),
        _ => None,
    };
    let accelerator = accelerator.as_ref();
    all.value(keys::ACCELERATOR_NAME, accelerator.map(|(name, _, _)| name.as_str()));
    all.value(
        keys::ACCELERATOR_MANUFACTURER,
        accelerator.map(|(_, maker, _)| maker.as_str()),
    );
    all.number(keys::ACCELERATOR_COUNT, accelerator.map(|(_, _, count)| *count));
}

/// The labels of the reservations of this type (AWS-189).
fn reservation_labels(all: &mut Collector<'_>, reservations: &[&NodeClassReservation]) {
    let bool_text = |value: bool| if value { "true" } else { "false" };
    let interner = all.interner;
    let ids = reservations.iter().map(|reservation| reservation.id.as_str());
    all.values(interner.intern(keys::RESERVATION_ID), ids);
    let types = reservations
        .iter()
        .map(|reservation| reservation.reservation_type.as_str());
    all.values(interner.intern(keys::RESERVATION_TYPE), types);
    let flags = reservations
        .iter()
        .map(|reservation| bool_text(reservation.interruptible));
    all.values(interner.intern(keys::RESERVATION_INTERRUPTIBLE), flags);
}
