//! The data of a launch template (AWS-161 to AWS-175).

use super::claim::Tenancy;
use super::groups::TemplateKey;
use super::interfaces::{InterfaceRequest, interfaces};
use crate::ami::default_volumes;
use crate::offering::CapacityType;
use crate::placement_group::PlacementGroup;
use crate::tags::Tags;
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::BlockDeviceMapping;
use kerf_units::quantity::Quantity;

const GIB: i64 = 1 << 30;
/// Regions whose metadata options have no IPv6 setting.
const REGIONS_WITHOUT_IPV6_METADATA: [&str; 6] = [
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-south-1",
    "us-isof-east-1",
];

/// What a template is made from.
#[derive(Clone, Copy, Debug)]
pub struct TemplateInput<'a> {
    /// The class.
    pub class: &'a EC2NodeClass,
    /// Region.
    pub region: &'a str,
    /// What distinguishes the template from others of the launch.
    pub key: &'a TemplateKey,
    /// User data as base64 text.
    pub user_data: &'a str,
    /// Tags of everything the launch creates.
    pub tags: &'a Tags,
    /// How the instance is bought.
    pub capacity_type: CapacityType,
    /// Whose hardware it runs on.
    pub tenancy: Tenancy,
    /// The class's placement group.
    pub group: Option<&'a PlacementGroup>,
    /// Partition to launch into.
    pub partition: Option<u32>,
    /// Whether the claim needs enclave support.
    pub enclaves: bool,
    /// Whether the cluster has IPv6 addresses.
    pub is_ipv6: bool,
    /// Whether capacity reservations are used.
    pub reserved_capacity: bool,
}

/// A disk of a launch template.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockDeviceRequest {
    /// Device name.
    pub device_name: Option<String>,
    /// Whether the volume goes with the instance.
    pub delete_on_termination: Option<bool>,
    /// Whether the volume is encrypted.
    pub encrypted: Option<bool>,
    /// Operations per second.
    pub iops: Option<i64>,
    /// KMS key.
    pub kms_key_id: Option<String>,
    /// Snapshot.
    pub snapshot_id: Option<String>,
    /// Throughput in MiB per second.
    pub throughput: Option<i64>,
    /// Rate in MiB per second at which the snapshot is loaded.
    pub volume_initialization_rate: Option<i32>,
    /// Size in GiB.
    pub volume_gib: Option<i64>,
    /// Type of the volume.
    pub volume_type: Option<String>,
}

/// Access to the metadata service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataRequest {
    /// Whether it answers at all.
    pub http_endpoint: Option<String>,
    /// Whether it has an IPv6 address; not sent in some regions.
    pub http_protocol_ipv6: Option<String>,
    /// Hops of an answer.
    pub http_put_response_hop_limit: Option<i64>,
    /// Whether tokens are needed.
    pub http_tokens: Option<String>,
}

/// Where EC2 places the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacementRequest {
    /// Whose hardware it runs on.
    pub tenancy: Tenancy,
    /// Placement group.
    pub group_id: Option<String>,
    /// Partition.
    pub partition: Option<u32>,
}

/// Which reservations the instance may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReservationPreference {
    /// This one and nothing else.
    Only(String),
    /// None at all.
    None,
}

/// How the instance is bought, where it is neither spot nor on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarketType {
    /// From a capacity block.
    CapacityBlock,
    /// From a reservation whose instances EC2 may take back.
    InterruptibleReservation,
}

/// The data of a launch template. Instance metadata tags are always disabled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateData {
    /// Disks.
    pub block_devices: Vec<BlockDeviceRequest>,
    /// Nested virtualization, where the class says something about it.
    pub nested_virtualization: Option<String>,
    /// Instance profile.
    pub instance_profile: Option<String>,
    /// Whether instances send metrics every minute.
    pub monitoring: Option<bool>,
    /// User data as base64 text.
    pub user_data: String,
    /// Image.
    pub image_id: String,
    /// Metadata service.
    pub metadata: MetadataRequest,
    /// Network interfaces.
    pub interfaces: Vec<InterfaceRequest>,
    /// Placement.
    pub placement: PlacementRequest,
    /// Whether enclaves can be used.
    pub enclaves: bool,
    /// Reservations; `None` sends nothing, so that open reservations may be used.
    pub reservation: Option<ReservationPreference>,
    /// Market, for blocks and interruptible reservations.
    pub market: Option<MarketType>,
    /// Kinds of resources that get the tags; the template itself gets them too (AWS-162).
    pub tagged_resources: Vec<&'static str>,
    /// Tags.
    pub tags: Tags,
}

/// Builds the data of a template.
pub fn template_data(input: &TemplateInput<'_>) -> TemplateData {
    let spec = &input.class.spec;
    let groups: Vec<String> = input
        .class
        .status
        .security_groups
        .iter()
        .map(|group| group.id.clone())
        .collect();
    let is_spot = input.capacity_type == CapacityType::Spot;
    let mut tagged_resources = vec!["network-interface"];
    if is_spot {
        tagged_resources.push("spot-instances-request");
    }
    let reservation = match (&input.key.reservation_id, input.capacity_type) {
        (Some(id), CapacityType::Reserved) => ReservationPreference::Only(id.clone()),
        _ => ReservationPreference::None,
    };
    TemplateData {
        block_devices: block_devices(input.class),
        nested_virtualization: spec
            .cpu_options
            .as_ref()
            .and_then(|options| options.nested_virtualization.clone()),
        instance_profile: input.class.status.instance_profile.clone(),
        monitoring: spec.detailed_monitoring,
        user_data: input.user_data.to_owned(),
        image_id: input.key.ami.clone(),
        metadata: metadata(input),
        interfaces: interfaces(spec, &groups, input.key.efa_count, input.is_ipv6),
        placement: PlacementRequest {
            tenancy: input.tenancy,
            group_id: input.group.map(|group| group.id.clone()),
            partition: input.partition,
        },
        enclaves: input.enclaves,
        reservation: input.reserved_capacity.then_some(reservation),
        market: market(input),
        tagged_resources,
        tags: input.tags.clone(),
    }
}

fn market(input: &TemplateInput<'_>) -> Option<MarketType> {
    if !input.reserved_capacity || input.capacity_type != CapacityType::Reserved {
        return None;
    }
    if input.key.reservation_type.as_deref() == Some("capacity-block") {
        return Some(MarketType::CapacityBlock);
    }
    input.key.interruptible.then_some(MarketType::InterruptibleReservation)
}

fn metadata(input: &TemplateInput<'_>) -> MetadataRequest {
    let options = input.class.spec.metadata_options.clone().unwrap_or_default();
    let has_ipv6 = !REGIONS_WITHOUT_IPV6_METADATA.contains(&input.region);
    MetadataRequest {
        http_endpoint: options.http_endpoint,
        http_protocol_ipv6: options.http_protocol_ipv6.filter(|_| has_ipv6),
        http_put_response_hop_limit: options.http_put_response_hop_limit,
        http_tokens: options.http_tokens,
    }
}

/// The disks of the class, or the defaults of the family.
fn block_devices(class: &EC2NodeClass) -> Vec<BlockDeviceRequest> {
    if let Some(disks) = &class.spec.block_device_mappings {
        return disks.iter().map(block_device).collect();
    }
    default_volumes(class.spec.effective_family())
        .iter()
        .map(|volume| BlockDeviceRequest {
            device_name: Some(volume.device.to_owned()),
            encrypted: Some(true),
            volume_gib: Some(volume.bytes / GIB),
            volume_type: Some("gp3".to_owned()),
            ..BlockDeviceRequest::default()
        })
        .collect()
}

fn block_device(disk: &BlockDeviceMapping) -> BlockDeviceRequest {
    let ebs = disk.ebs.clone().unwrap_or_default();
    // EC2 refuses zero where it means "not set".
    let set = |value: Option<i64>| value.filter(|value| *value != 0);
    BlockDeviceRequest {
        device_name: disk.device_name.clone(),
        delete_on_termination: ebs.delete_on_termination,
        encrypted: ebs.encrypted,
        iops: set(ebs.iops),
        kms_key_id: ebs.kms_key_id,
        snapshot_id: ebs.snapshot_id,
        throughput: set(ebs.throughput),
        volume_initialization_rate: ebs.volume_initialization_rate,
        volume_gib: ebs.volume_size.as_ref().map(volume_gib),
        volume_type: ebs.volume_type,
    }
}

/// A size in whole GiB, rounded up: 200G are 187 GiB (AWS-167).
pub fn volume_gib(size: &Quantity) -> i64 {
    let bytes = size.units_ceil();
    bytes / GIB + i64::from(bytes % GIB > 0)
}
