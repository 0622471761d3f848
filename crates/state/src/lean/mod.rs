//! Lean forms of the Kubernetes objects the mirror watches: only the fields decisions read (DEP-027).
//!
//! They decode several times faster than the generated types and are dropped as soon as they are converted. They never travel back to
//! the API server. A field whose text means nothing (an amount such as `lots`) does not fail its object: it is kept as the error it is,
//! and the conversion turns it into a fault of exactly that object.

mod amount;
mod json;
mod meta;
mod node;
mod pod;
mod policy;
mod storage;
mod workload;

pub use amount::{Amount, Amounts};
pub use node::{LeanNode, LeanNodeSpec, LeanNodeStatus, LeanTaint};
pub use pod::{
    LabelKeyExpression, LeanAffinity, LeanAffinityTerm, LeanCondition, LeanContainer, LeanContainerStatus,
    LeanLabelSelector, LeanNodeAffinity, LeanNodeSelector, LeanNodeSelectorTerm, LeanPod, LeanPodAffinity, LeanPodSpec,
    LeanPodStatus, LeanPort, LeanPreferredNodeTerm, LeanPreferredPodTerm, LeanResources, LeanSpread, LeanToleration,
    LeanVolume, LeanVolumeClaim,
};
pub use policy::{CountOrShare, LeanNamespace, LeanPdb, LeanPdbSpec, LeanPdbStatus, LeanPriorityClass};
pub use storage::{
    LeanCsiAllocatable, LeanCsiDriver, LeanCsiNode, LeanCsiNodeSpec, LeanCsiSource, LeanPv, LeanPvSpec, LeanPvc,
    LeanPvcSpec, LeanPvcStatus, LeanStorageClass, LeanTopologyExpression, LeanTopologyTerm, LeanVolumeAffinity,
};
pub use workload::{
    LeanDaemonSet, LeanDaemonSetSpec, LeanDeployment, LeanPodTemplate, LeanPodTemplateObject, LeanReplicaSet,
    LeanStatefulSet, LeanTemplateMeta, LeanWorkloadSpec,
};

use serde::{Deserialize, Deserializer};

/// A field written as `null` means the same as one left out, as it does to the API server.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
