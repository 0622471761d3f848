//! EC2NodeClass: how nodes are made on EC2 (sections 1 to 3 of `docs/behaviour/aws.md`).
//!
//! The types read an object and write it back unchanged: a field that is present but empty stays so, because the drift hash counts it.
//! What the schema of the definition cannot refuse is found by [`EC2NodeClassSpec::faults`].

mod family;
mod faults;
mod hash;
mod kubelet;
mod node_class;
mod selectors;
mod spec;
mod status;

pub use family::{AmiAlias, AmiFamily};
pub use faults::{SpecFault, is_restricted_tag};
pub use hash::{EC2_NODE_CLASS_HASH_VERSION, HashAnnotations, has_static_drift, migrated_claim_annotations};
pub use kubelet::{KubeletConfiguration, MaxPods, is_expression};
pub use node_class::EC2NodeClass;
pub use selectors::{
    AmiSelectorTerm, CapacityReservationSelectorTerm, PlacementGroupSelector, SecurityGroupSelectorTerm,
    SubnetSelectorTerm,
};
pub use spec::{
    BlockDevice, BlockDeviceMapping, ConnectionTracking, CpuOptions, EC2NodeClassSpec, InstanceStorePolicy,
    InterfaceType, MetadataOptions, NetworkInterface,
};
pub use status::{EC2NodeClassStatus, NodeClassAmi, NodeClassReservation, NodeClassSecurityGroup, NodeClassSubnet};

/// API group.
pub const GROUP: &str = "karpenter.k8s.aws";
/// API version.
pub const VERSION: &str = "v1";
/// Kind.
pub const KIND: &str = "EC2NodeClass";
/// Finalizer that keeps a class until its templates and profiles are deleted (AWS-057).
pub const FINALIZER: &str = "karpenter.k8s.aws/termination";
