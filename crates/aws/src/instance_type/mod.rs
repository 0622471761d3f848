//! Instance types: what EC2 says of them, and what a class makes of that (sections 10 and 11 of `docs/behaviour/aws.md`).

mod builtin;
mod capacity;
mod compatibility;
mod description;
pub mod kubelet;
mod labels;
mod overhead;
mod pods;
mod resolve;
mod storage;

pub use builtin::{BUILTIN_ZONES, builtin_types};
pub use capacity::{capacity, efa_max, memory_bytes};
pub use compatibility::{Incompatibility, incompatibility};
pub use description::{
    AcceleratorDescription, GpuDescription, InstanceTypeDescription, LocalStorage, NetworkCard, NetworkDescription,
    NeuronDescription, UsageClass,
};
pub use labels::{NameParts, ZoneView, architecture, name_parts, requirements};
pub use overhead::{eviction_threshold, kube_reserved, overhead, system_reserved};
pub use pods::{FamilyPodRules, eni_limited_pods, family_pod_rules, pods};
pub use resolve::{ResolveSettings, TypeKey, TypesOfClass, resolve};
pub use storage::ephemeral_storage_bytes;
