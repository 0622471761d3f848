//! The static drift hash of a class, equal to the one Karpenter writes (AWS-034 to AWS-054).
//!
//! Fields are mixed in the order in which the original declares them, under its Go names. Absent fields do not count; present but empty ones
//! do.

use std::collections::BTreeMap;

use super::kubelet::{KubeletConfiguration, MaxPods};
use super::spec::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, InstanceStorePolicy,
    MetadataOptions, NetworkInterface,
};
use super::{EC2NodeClass, PlacementGroupSelector};
use crate::annotations::{EC2_NODE_CLASS_HASH, EC2_NODE_CLASS_HASH_VERSION as VERSION_KEY};
use crate::hash::{self, StructHash, is_hash, list, primitive, string_map};
use serde_json::Value;

/// Version of the algorithm and of the set of fields, written beside every hash.
pub const EC2_NODE_CLASS_HASH_VERSION: &str = "v5";

impl EC2NodeClass {
    /// The drift hash, as its annotation shows it. `ca_bundle` is the cluster's CA bundle as base64 text.
    pub fn drift_hash(&self, ca_bundle: &str) -> String {
        let family = self.spec.effective_family();
        let parts = [
            spec(&self.spec),
            primitive(family.as_str().as_bytes()),
            primitive(ca_bundle.as_bytes()),
        ];
        list(parts).to_string()
    }

    /// The hash and its version, as annotations of the class and of new claims.
    pub fn hash_annotations(&self, ca_bundle: &str) -> HashAnnotations {
        HashAnnotations {
            hash: self.drift_hash(ca_bundle),
            version: EC2_NODE_CLASS_HASH_VERSION.to_owned(),
        }
    }
}

/// The two annotations that carry a drift hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashAnnotations {
    /// The hash as a decimal number.
    pub hash: String,
    /// The version of the algorithm.
    pub version: String,
}

impl HashAnnotations {
    /// The annotations by key.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        [
            (EC2_NODE_CLASS_HASH.to_owned(), self.hash.clone()),
            (VERSION_KEY.to_owned(), self.version.clone()),
        ]
        .into()
    }
}

/// Whether class and claim differ in the fields that are hashed. Without all four annotations, with two versions, or with a text that is no
/// hash there is nothing to compare (AWS-294).
pub fn has_static_drift(class: &BTreeMap<String, String>, claim: &BTreeMap<String, String>) -> bool {
    let both = |key| Some((class.get(key)?, claim.get(key)?));
    let hashes = both(EC2_NODE_CLASS_HASH).filter(|(class, claim)| is_hash(class) && is_hash(claim));
    matches!((hashes, both(VERSION_KEY)), (Some((a, b)), Some((v, w))) if v == w && a != b)
}

/// The annotations to write on a claim whose class was hashed with another version; `None` for a claim that has the current version. A
/// claim that drifted already keeps its old hash, so that it stays drifted (AWS-053).
pub fn migrated_claim_annotations(
    claim: &BTreeMap<String, String>,
    is_drifted: bool,
    current: &HashAnnotations,
) -> Option<BTreeMap<String, String>> {
    if claim.get(VERSION_KEY) == Some(&current.version) {
        return None;
    }
    let mut annotations = current.to_map();
    if is_drifted {
        annotations.remove(EC2_NODE_CLASS_HASH);
    }
    Some(annotations)
}

/// A text that is absent or present, be it empty.
fn text(value: Option<&String>) -> Option<u64> {
    value.map(|value| primitive(value.as_bytes()))
}

fn boolean(value: Option<bool>) -> Option<u64> {
    value.map(|value| primitive(&[u8::from(value)]))
}

fn int32(value: Option<i32>) -> Option<u64> {
    value.map(|value| primitive(&value.to_le_bytes()))
}

fn int64(value: Option<i64>) -> Option<u64> {
    value.map(|value| primitive(&value.to_le_bytes()))
}

fn map(value: Option<&BTreeMap<String, String>>) -> Option<u64> {
    value.map(string_map)
}

fn spec(spec: &EC2NodeClassSpec) -> u64 {
    let mut hash = StructHash::new("EC2NodeClassSpec");
    let group = spec.placement_group_selector.as_ref();
    hash.field("PlacementGroupSelector", group.map(placement_group));
    hash.field("AssociatePublicIPAddress", boolean(spec.associate_public_ip_address));
    hash.field("UserData", text(spec.user_data.as_ref()));
    // The original's field is no pointer: empty is absent.
    hash.field("Role", text(spec.role.as_ref().filter(|role| !role.is_empty())));
    hash.field("InstanceProfile", text(spec.instance_profile.as_ref()));
    hash.field("Tags", map(spec.tags.as_ref()));
    hash.field("Kubelet", spec.kubelet.as_ref().map(kubelet));
    let disks = spec.block_device_mappings.as_ref();
    hash.field(
        "BlockDeviceMappings",
        disks.map(|disks| list(disks.iter().map(block_device_mapping))),
    );
    let policy = spec.instance_store_policy.map(|policy| match policy {
        InstanceStorePolicy::Raid0 => primitive(b"RAID0"),
    });
    hash.field("InstanceStorePolicy", policy);
    let interfaces = spec.network_interfaces.as_ref();
    hash.field(
        "NetworkInterfaces",
        interfaces.map(|interfaces| list(interfaces.iter().map(network_interface))),
    );
    hash.field("DetailedMonitoring", boolean(spec.detailed_monitoring));
    hash.field("MetadataOptions", spec.metadata_options.as_ref().map(metadata_options));
    hash.field(
        "ConnectionTracking",
        spec.connection_tracking.as_ref().map(connection_tracking),
    );
    hash.field("Context", text(spec.context.as_ref()));
    hash.field("CPUOptions", spec.cpu_options.as_ref().map(cpu_options));
    hash.finish()
}

fn placement_group(selector: &PlacementGroupSelector) -> u64 {
    let mut hash = StructHash::new("PlacementGroupSelector");
    hash.field("Name", text(selector.name.as_ref()));
    hash.field("ID", text(selector.id.as_ref()));
    hash.finish()
}

fn kubelet(kubelet: &KubeletConfiguration) -> u64 {
    let mut hash = StructHash::new("KubeletConfiguration");
    let servers = kubelet.cluster_dns.as_ref();
    hash.field(
        "ClusterDNS",
        servers.map(|servers| list(servers.iter().map(|server| primitive(server.as_bytes())))),
    );
    let max_pods = kubelet.max_pods.as_ref().and_then(|max_pods| match max_pods {
        MaxPods::Count(count) => int32(Some(*count)),
        MaxPods::Expression(expression) => text(Some(expression)),
    });
    hash.field("MaxPods", max_pods);
    hash.field("PodsPerCore", int32(kubelet.pods_per_core));
    hash.field("SystemReserved", map(kubelet.system_reserved.as_ref()));
    hash.field("KubeReserved", map(kubelet.kube_reserved.as_ref()));
    hash.field("EvictionHard", map(kubelet.eviction_hard.as_ref()));
    hash.field("EvictionSoft", map(kubelet.eviction_soft.as_ref()));
    let periods = kubelet.eviction_soft_grace_period.as_ref().map(|periods| {
        let periods = periods.iter().map(|(key, period)| (key.as_str(), period.value()));
        hash::map(periods.map(|(key, period)| (key, hash::duration("Duration", period))))
    });
    hash.field("EvictionSoftGracePeriod", periods);
    hash.field(
        "EvictionMaxPodGracePeriod",
        int32(kubelet.eviction_max_pod_grace_period),
    );
    hash.field(
        "ImageGCHighThresholdPercent",
        int32(kubelet.image_gc_high_threshold_percent),
    );
    hash.field(
        "ImageGCLowThresholdPercent",
        int32(kubelet.image_gc_low_threshold_percent),
    );
    hash.field("CPUCFSQuota", boolean(kubelet.cpu_cfs_quota));
    // The original has no such fields in this version of the hash: without any, the hash is the original's.
    let other = kubelet.other.iter().map(|(name, value)| (name, canonical(value)));
    let other: BTreeMap<String, String> = other.map(|(name, value)| (name.clone(), value)).collect();
    hash.field("Other", map(Some(&other).filter(|other| !other.is_empty())));
    hash.finish()
}

/// The JSON of a value with the keys of its maps in order.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, String> = fields.iter().map(|(key, value)| (key, canonical(value))).collect();
            let fields: Vec<String> = sorted.iter().map(|(key, value)| format!("{key:?}:{value}")).collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

fn block_device_mapping(mapping: &BlockDeviceMapping) -> u64 {
    let mut hash = StructHash::new("BlockDeviceMapping");
    hash.field("DeviceName", text(mapping.device_name.as_ref()));
    hash.field("EBS", mapping.ebs.as_ref().map(block_device));
    hash.field("RootVolume", boolean(mapping.root_volume.then_some(true)));
    hash.finish()
}

fn block_device(device: &BlockDevice) -> u64 {
    let mut hash = StructHash::new("BlockDevice");
    hash.field("DeleteOnTermination", boolean(device.delete_on_termination));
    hash.field("Encrypted", boolean(device.encrypted));
    hash.field("IOPS", int64(device.iops));
    hash.field("KMSKeyID", text(device.kms_key_id.as_ref()));
    hash.field("SnapshotID", text(device.snapshot_id.as_ref()));
    hash.field("Throughput", int64(device.throughput));
    hash.field("VolumeInitializationRate", int32(device.volume_initialization_rate));
    // The canonical text, such as 2G, whatever was written.
    let size = device.volume_size.as_ref().map(ToString::to_string);
    hash.field("VolumeSize", text(size.as_ref()));
    hash.field("VolumeType", text(device.volume_type.as_ref()));
    hash.finish()
}

fn network_interface(interface: &NetworkInterface) -> u64 {
    let mut hash = StructHash::new("NetworkInterface");
    let index = |index: i32| int32((index != 0).then_some(index));
    hash.field("NetworkCardIndex", index(interface.network_card_index));
    hash.field("DeviceIndex", index(interface.device_index));
    hash.field(
        "InterfaceType",
        Some(primitive(interface.interface_type.as_str().as_bytes())),
    );
    hash.finish()
}

fn metadata_options(options: &MetadataOptions) -> u64 {
    let mut hash = StructHash::new("MetadataOptions");
    hash.field("HTTPEndpoint", text(options.http_endpoint.as_ref()));
    hash.field("HTTPProtocolIPv6", text(options.http_protocol_ipv6.as_ref()));
    hash.field("HTTPPutResponseHopLimit", int64(options.http_put_response_hop_limit));
    hash.field("HTTPTokens", text(options.http_tokens.as_ref()));
    hash.finish()
}

fn connection_tracking(tracking: &ConnectionTracking) -> u64 {
    let mut hash = StructHash::new("ConnectionTracking");
    hash.field("TCPEstablishedTimeout", int32(tracking.tcp_established_timeout));
    hash.field("UDPStreamTimeout", int32(tracking.udp_stream_timeout));
    hash.field("UDPTimeout", int32(tracking.udp_timeout));
    hash.finish()
}

fn cpu_options(options: &CpuOptions) -> u64 {
    let mut hash = StructHash::new("CPUOptions");
    hash.field("NestedVirtualization", text(options.nested_virtualization.as_ref()));
    hash.finish()
}
