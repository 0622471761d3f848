//! The Node that a machine registers.

use super::bootstrap::Bootstrap;
use crate::account::{Account, Instance};
use k8s_openapi::api::core::v1::Node;
use kerf_api::EC2NodeClassSpec;
use kerf_api::ec2_node_class::AmiFamily;
use kerf_aws::instance_type::{ResolveSettings, capacity, overhead};
use kerf_aws::labels::ZONE_ID;
use kerf_aws::provider_id::provider_id;
use kerf_cloud::quantities;
use kerf_model::instance_type::allocatable;
use kerf_model::intern::Interner;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The part of memory that firmware and hypervisor really keep. It is less than the default of `--vm-memory-overhead-percent`, as on most
/// machines, so that nodes report more than was assumed.
const MEMORY_OVERHEAD: f64 = 0.05;

/// The settings of a class under which kubelet reports what this machine has.
fn class_spec(instance: &Instance, bootstrap: &Bootstrap) -> EC2NodeClassSpec {
    let volumes = instance
        .volumes
        .iter()
        .map(|(device, gib)| json!({"deviceName": device, "ebs": {"volumeSize": format!("{gib}Gi")}}));
    let mut spec = Map::new();
    spec.insert("kubelet".to_owned(), json!(bootstrap.kubelet));
    spec.insert("blockDeviceMappings".to_owned(), Value::Array(volumes.collect()));
    if bootstrap.uses_local_disks {
        spec.insert("instanceStorePolicy".to_owned(), json!("RAID0"));
    }
    serde_json::from_value(spec.into()).unwrap_or_default()
}

/// What the machine has and what it offers to pods, as quantities by resource.
fn amounts(account: &Account, instance: &Instance, family: AmiFamily, bootstrap: &Bootstrap) -> Option<(Value, Value)> {
    let kind = account.instance_type(&instance.instance_type)?;
    let settings = ResolveSettings {
        region: account.region.clone(),
        vm_memory_overhead_percent: MEMORY_OVERHEAD,
        reserved_enis: 0,
        reserved_capacity: false,
        node_class_cel: false,
    };
    let spec = class_spec(instance, bootstrap);
    let interner = Interner::default();
    let capacity = capacity(kind, &spec, family, &settings, None, &interner);
    let overhead = overhead(kind, &spec, family, &settings, &interner);
    let is_huge = |name| interner.text(name).starts_with("hugepages-");
    let left = allocatable(&capacity, &overhead, is_huge);
    Some((
        json!(quantities(&capacity, &interner)),
        json!(quantities(&left, &interner)),
    ))
}

/// The Node of a machine, with what kubelet and the cloud's controller write; `None` for a machine of a type that does not exist.
pub(super) fn node(account: &Account, instance: &Instance, family: AmiFamily, bootstrap: &Bootstrap) -> Option<Node> {
    let name = instance.private_name();
    let (capacity, allocatable) = amounts(account, instance, family, bootstrap)?;
    let arch = if instance.architecture == "arm64" {
        "arm64"
    } else {
        "amd64"
    };
    let os = if family.is_windows() { "windows" } else { "linux" };
    let mut labels: BTreeMap<String, String> = bootstrap.labels.clone();
    let own = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/arch", arch),
        ("kubernetes.io/os", os),
        ("node.kubernetes.io/instance-type", &instance.instance_type),
        ("topology.kubernetes.io/region", &account.region),
        ("topology.kubernetes.io/zone", &instance.zone.name),
        (ZONE_ID, &instance.zone.id),
    ];
    labels.extend(own.map(|(key, value)| (key.to_owned(), value.to_owned())));
    if let Some(build) = family.windows_build() {
        labels.insert("node.kubernetes.io/windows-build".to_owned(), build.to_owned());
    }
    let taints = bootstrap.taints.iter().map(|taint| {
        let value = Some(&taint.value).filter(|value| !value.is_empty());
        json!({"key": taint.key, "value": value, "effect": taint.effect})
    });
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"providerID": provider_id(&instance.zone.name, &instance.id), "taints": taints.collect::<Vec<_>>()},
        "status": {
            "phase": "Pending", "capacity": capacity, "allocatable": allocatable,
            "addresses": [{"type": "InternalIP", "address": instance.address}, {"type": "Hostname", "address": name}],
        },
    });
    serde_json::from_value(node).ok()
}
