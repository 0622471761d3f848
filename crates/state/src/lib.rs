//! The mirror of the cluster: folds watch events into the domain and publishes snapshots.
//!
//! The input are Kubernetes objects: lean types for the built-in kinds, and `kerf-api`'s types for Karpenter's. The output are
//! [`kerf_model::snapshot::Snapshot`]s. Only this crate converts API objects to the model. Nothing here is async, reads a clock or does I/O:
//! time is an argument.
//! Units are the model's: `cpu` in milli-cores, other resources in base units, prices in 10⁻¹² per hour.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod capacity_buffer;
mod cluster_objects;
pub mod convert;
mod cost;
mod in_flight;
mod key;
pub mod lean;
mod mirror;
mod node_class;
mod object;

pub use cluster_objects::ClusterObjects;
pub use convert::{Conventions, Converter, NodeNomination, PodMeasures};
pub use cost::{PoolCost, pool_cost};
pub use in_flight::{CommandInFlight, CommandNode, Now, Placed, PodTime, PodTimes, Replacement, SuspiciousList};
pub use mirror::{ListedPod, Mirror, MirrorOptions, ObjectVersion, PoolClaims, Stored, SyncReport, WaitingPod};
pub use node_class::{NodeClass, ReportedClass};
pub use object::{Event, Kind, Mirrored, Object, ResetReport};
