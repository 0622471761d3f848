//! The Kubernetes API surface of Kerf: custom resources, well-known names, validation, conditions and drift hashes.
//!
//! - The input is JSON from an API server or a file; the output is typed objects that encode back without losing or adding a field.
//! - [`crds()`] gives the CustomResourceDefinitions, kept by hand as YAML, in the flavour of a provider.
//! - Everything is a pure function of its arguments; the time comes in as a [`jiff::Timestamp`].
//! - Units: quantities are exact decimals of whole units, durations are nanoseconds, prices stay the text they were given as.
//!
//! What the names and texts must be is Karpenter's v1 API, as the statements `API-…` of `docs/behaviour/api.md` beside each item say.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod annotations;
pub mod capacity_buffer;
mod cluster_wide;
pub mod condition;
pub mod conditions;
pub mod crds;
pub mod decode;
pub mod ec2_node_class;
pub mod finalizers;
pub mod hash;
pub mod json;
pub mod kwok_node_class;
pub mod label_rules;
pub mod labels;
pub mod names;
pub mod node_claim;
pub mod node_overlay;
pub mod node_pool;
pub mod node_repair_policy;
pub mod node_spec;
pub mod resources;
pub mod scheduler_config;
pub mod startup_taints;
pub mod status;
pub mod taints;
pub mod validate;

pub use capacity_buffer::{CapacityBuffer, CapacityBufferSpec, CapacityBufferStatus};
pub use condition::{Condition, ConditionStatus};
pub use crds::{Crd, Provider, crds, with_later_kubelet_fields};
pub use decode::{DecodeError, decode};
pub use ec2_node_class::{AmiFamily, EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
pub use kwok_node_class::{KwokNodeClass, KwokNodeClassSpec, KwokNodeClassStatus};
pub use label_rules::LabelRules;
pub use node_claim::{NodeClaim, NodeClaimSpec, NodeClaimStatus, ResourceRequests};
pub use node_overlay::{NodeOverlay, NodeOverlaySpec, NodeOverlayStatus, OverlayRequirement};
pub use node_pool::{
    Budget, ConsolidationPolicy, Disruption, DisruptionReason, NodeClaimTemplate, NodeClaimTemplateSpec, NodePool,
    NodePoolSpec, NodePoolStatus, TemplateMetadata,
};
pub use node_repair_policy::{
    MaintenanceWindow, NodeRepairPolicy, NodeRepairPolicySpec, NodeRepairPolicyStatus, RepairAction, UnhealthyCondition,
};
pub use node_spec::{NodeClassKind, NodeClassRef, Operator, Requirement, ResourceList};
pub use scheduler_config::{DefaultConstraint, SchedulerConfig, SchedulerConfigError};
pub use startup_taints::StartupTaints;
pub use status::{ConditionSet, Conditioned};
