//! Labels of EC2 nodes, and what the provider adds to label handling (sections 2 and 27 of `docs/behaviour/aws.md`).

use kerf_api::LabelRules;
use kerf_cloud::Vocabulary;

/// The domain of the provider's labels, closed for others (AWS-031).
pub const DOMAIN: &str = "karpenter.k8s.aws";
/// Name of the EC2NodeClass (AWS-356).
pub const NODE_CLASS: &str = "karpenter.k8s.aws/ec2nodeclass";

/// Id of the capacity reservation.
pub const RESERVATION_ID: &str = "karpenter.k8s.aws/capacity-reservation-id";
/// `default` or `capacity-block`.
pub const RESERVATION_TYPE: &str = "karpenter.k8s.aws/capacity-reservation-type";
/// Whether EC2 may take the reservation's instances back.
pub const RESERVATION_INTERRUPTIBLE: &str = "karpenter.k8s.aws/capacity-reservation-interruptible";
/// `nitro`, `xen`, or empty for bare metal.
pub const HYPERVISOR: &str = "karpenter.k8s.aws/instance-hypervisor";
/// Whether traffic between instances is encrypted.
pub const ENCRYPTION_IN_TRANSIT: &str = "karpenter.k8s.aws/instance-encryption-in-transit-supported";
/// Leading letters of the family, such as `m`.
pub const CATEGORY: &str = "karpenter.k8s.aws/instance-category";
/// Whether the family is a flex family.
pub const FLEX: &str = "karpenter.k8s.aws/instance-capability-flex";
/// Part before the dot, such as `m5`.
pub const FAMILY: &str = "karpenter.k8s.aws/instance-family";
/// Number in the family, such as `5`.
pub const GENERATION: &str = "karpenter.k8s.aws/instance-generation";
/// Part after the dot, such as `large`.
pub const SIZE: &str = "karpenter.k8s.aws/instance-size";
/// Local NVMe disks in GB.
pub const LOCAL_NVME: &str = "karpenter.k8s.aws/instance-local-nvme";
/// vCPUs.
pub const CPU: &str = "karpenter.k8s.aws/instance-cpu";
/// `intel`, `amd` or `aws`.
pub const CPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-cpu-manufacturer";
/// Sustained clock in MHz.
pub const CPU_CLOCK_MHZ: &str = "karpenter.k8s.aws/instance-cpu-sustained-clock-speed-mhz";
/// Advertised memory in MiB.
pub const MEMORY: &str = "karpenter.k8s.aws/instance-memory";
/// Bandwidth to EBS in Mbit/s.
pub const EBS_BANDWIDTH: &str = "karpenter.k8s.aws/instance-ebs-bandwidth";
/// Baseline network bandwidth in Mbit/s.
pub const NETWORK_BANDWIDTH: &str = "karpenter.k8s.aws/instance-network-bandwidth";
/// Name of the GPU.
pub const GPU_NAME: &str = "karpenter.k8s.aws/instance-gpu-name";
/// Manufacturer of the GPU.
pub const GPU_MANUFACTURER: &str = "karpenter.k8s.aws/instance-gpu-manufacturer";
/// Number of GPUs.
pub const GPU_COUNT: &str = "karpenter.k8s.aws/instance-gpu-count";
/// Memory of one GPU in MiB.
pub const GPU_MEMORY: &str = "karpenter.k8s.aws/instance-gpu-memory";
/// Name of the accelerator.
pub const ACCELERATOR_NAME: &str = "karpenter.k8s.aws/instance-accelerator-name";
/// Manufacturer of the accelerator.
pub const ACCELERATOR_MANUFACTURER: &str = "karpenter.k8s.aws/instance-accelerator-manufacturer";
/// Number of accelerators.
pub const ACCELERATOR_COUNT: &str = "karpenter.k8s.aws/instance-accelerator-count";
/// `default` or `dedicated`.
pub const TENANCY: &str = "karpenter.k8s.aws/instance-tenancy";
/// Id of the placement group.
pub const PLACEMENT_GROUP_ID: &str = "karpenter.k8s.aws/placement-group-id";
/// Partition of the placement group.
pub const PLACEMENT_GROUP_PARTITION: &str = "karpenter.k8s.aws/placement-group-partition";
/// Id of the zone, which is equal in all accounts.
pub const ZONE_ID: &str = "topology.k8s.aws/zone-id";
/// The zone label of the EBS CSI driver, read as the zone (AWS-338).
pub const EBS_CSI_ZONE: &str = "topology.ebs.csi.aws.com/zone";

/// Tenancy of instances on shared hardware.
pub const TENANCY_DEFAULT: &str = "default";
/// Tenancy of instances on hardware of one account.
pub const TENANCY_DEDICATED: &str = "dedicated";

/// Labels added to those every provider knows (AWS-354).
pub const WELL_KNOWN: [&str; 29] = [
    RESERVATION_ID,
    RESERVATION_TYPE,
    RESERVATION_INTERRUPTIBLE,
    HYPERVISOR,
    ENCRYPTION_IN_TRANSIT,
    CATEGORY,
    FLEX,
    FAMILY,
    GENERATION,
    SIZE,
    LOCAL_NVME,
    CPU,
    CPU_MANUFACTURER,
    CPU_CLOCK_MHZ,
    MEMORY,
    EBS_BANDWIDTH,
    NETWORK_BANDWIDTH,
    GPU_NAME,
    GPU_MANUFACTURER,
    GPU_COUNT,
    GPU_MEMORY,
    ACCELERATOR_NAME,
    ACCELERATOR_MANUFACTURER,
    ACCELERATOR_COUNT,
    TENANCY,
    PLACEMENT_GROUP_ID,
    PLACEMENT_GROUP_PARTITION,
    ZONE_ID,
    kerf_api::labels::WINDOWS_BUILD,
];

/// Labels of a capacity reservation, which only reserved offerings define.
pub const RESERVATION: [&str; 3] = [RESERVATION_ID, RESERVATION_TYPE, RESERVATION_INTERRUPTIBLE];

/// The label rules of the provider (AWS-031, AWS-033, AWS-338).
pub fn label_rules() -> LabelRules {
    LabelRules::core()
        .with_restricted_domain(DOMAIN)
        .with_well_known(WELL_KNOWN)
        .with_well_known_values(TENANCY, [TENANCY_DEFAULT, TENANCY_DEDICATED])
        .with_normalized(EBS_CSI_ZONE, kerf_api::labels::ZONE)
}

/// The labels and defaults the provider adds to scheduling (AWS-357).
pub fn vocabulary() -> Vocabulary {
    Vocabulary {
        reservation_id_label: Some(RESERVATION_ID.to_owned()),
        reserved_only_labels: RESERVATION.map(str::to_owned).into(),
        ..Vocabulary::new(label_rules())
    }
}
