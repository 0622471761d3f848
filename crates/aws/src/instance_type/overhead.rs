//! What kubelet, the system and the eviction thresholds keep from pods (AWS-207 to AWS-211).

use super::description::InstanceTypeDescription;
use super::pods::{eni_limited_pods, family_pod_rules, pods};
use super::resolve::ResolveSettings;
use super::{ephemeral_storage_bytes, memory_bytes};
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::{AmiFamily, KubeletConfiguration};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;
use std::collections::BTreeMap;

const MIB: i64 = 1 << 20;
const GIB: i64 = 1 << 30;

/// Memory of kubelet and the container runtime for each pod, and without any pod, in MiB.
const MEMORY_MIB_PER_POD: i64 = 11;
const MEMORY_MIB_BASE: i64 = 255;
/// Storage of kubelet and the container runtime.
const STORAGE: i64 = GIB;
/// Hard eviction threshold of memory.
const EVICTION_MEMORY: i64 = 100 * MIB;
/// Hard eviction threshold of storage, in percent.
const EVICTION_STORAGE_PERCENT: f64 = 10.0;

/// Bytes, thousandths of a core, or pieces of a resource, from a quantity as text. Text that is no quantity counts as nothing; the class is
/// not ready then.
fn amount(name: Sym, text: &str) -> i64 {
    let quantity: Quantity = text.parse().unwrap_or_default();
    if name == sym::CPU {
        quantity.milli_ceil()
    } else {
        quantity.units_ceil()
    }
}

fn amounts(map: Option<&BTreeMap<String, String>>, interner: &Interner) -> Resources {
    let entries = map.into_iter().flatten();
    entries
        .map(|(name, text)| (interner.intern(name), text))
        .map(|(name, text)| (name, amount(name, text)))
        .collect()
}

/// CPU that kubelet reserves, in thousandths: 6 % of the first core, 1 % of the second, 0.5 % of the next two and 0.25 % of the rest, each
/// part cut to whole thousandths (AWS-208).
fn cpu_milli(cores: i64) -> i64 {
    let part = |from: i64, to: i64, per_hundred_thousand: i64| {
        let cores = (cores.min(to) - from).max(0);
        cores * 1000 * per_hundred_thousand / 100_000
    };
    part(0, 1, 6_000) + part(1, 2, 1_000) + part(2, 4, 500) + part(4, i64::MAX, 250)
}

/// What is reserved for kubelet; settings of the class replace the defaults by resource (AWS-207, AWS-208, AWS-483).
pub fn kube_reserved(
    description: &InstanceTypeDescription,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
    settings: &ResolveSettings,
    interner: &Interner,
) -> Resources {
    let kubelet = spec.kubelet();
    let pods = if family_pod_rules(family).overhead_by_interfaces {
        eni_limited_pods(description, 0, spec.interfaces())
    } else {
        pods(description, family, &kubelet, settings.reserved_enis, spec.interfaces())
    };
    let mut reserved = Resources::new()
        .with(sym::CPU, cpu_milli(description.vcpus))
        .with(sym::MEMORY, (MEMORY_MIB_PER_POD * pods + MEMORY_MIB_BASE) * MIB)
        .with(sym::EPHEMERAL_STORAGE, STORAGE);
    for (name, amount) in amounts(kubelet.kube_reserved.as_ref(), interner).iter() {
        reserved.set(name, amount);
    }
    reserved
}

/// What is reserved for processes outside Kubernetes: what the class says (AWS-209).
pub fn system_reserved(kubelet: &KubeletConfiguration, interner: &Interner) -> Resources {
    amounts(kubelet.system_reserved.as_ref(), interner)
}

/// The hard eviction thresholds. Soft thresholds never count (AWS-210).
pub fn eviction_threshold(kubelet: &KubeletConfiguration, memory: i64, storage: i64) -> Resources {
    let hard = |signal: &str| kubelet.eviction_hard.as_ref().and_then(|map| map.get(signal));
    let memory = match hard("memory.available") {
        Some(text) => threshold(text, memory),
        None => EVICTION_MEMORY,
    };
    let storage = match hard("nodefs.available") {
        Some(text) => threshold(text, storage),
        None => percent_of(storage, EVICTION_STORAGE_PERCENT),
    };
    Resources::new()
        .with(sym::MEMORY, memory)
        .with(sym::EPHEMERAL_STORAGE, storage)
}

/// A threshold in bytes: a quantity, or a percentage of the capacity. 100 % switches the threshold off (AWS-485).
fn threshold(text: &str, capacity: i64) -> i64 {
    match text.strip_suffix('%') {
        None => amount(sym::MEMORY, text),
        Some(percent) => match percent.parse::<f64>() {
            Ok(percent) if percent < 100.0 => percent_of(capacity, percent),
            _ => 0,
        },
    }
}

fn percent_of(capacity: i64, percent: f64) -> i64 {
    (capacity as f64 / 100.0 * percent).ceil() as i64
}

/// All that is kept from pods. Percentages of memory follow the estimated memory, also where nodes reported another (AWS-213).
pub fn overhead(
    description: &InstanceTypeDescription,
    spec: &EC2NodeClassSpec,
    family: AmiFamily,
    settings: &ResolveSettings,
    interner: &Interner,
) -> Resources {
    let kubelet = spec.kubelet();
    let memory = memory_bytes(description, settings.vm_memory_overhead_percent);
    let storage = ephemeral_storage_bytes(description, spec, family);
    let mut total = kube_reserved(description, spec, family, settings, interner);
    total.add(&system_reserved(&kubelet, interner));
    total.add(&eviction_threshold(&kubelet, memory, storage));
    total
}
