//! The rules of a node's life from launch to end, as functions of plain values.
//!
//! - [`liveness`]: how long a claim may take to launch and to register.
//! - [`registration_health`]: whether the latest nodes of a pool registered.
//! - [`expiration`]: when a claim is too old.
//! - [`claim_conditions`]: when a claim is drifted or consolidatable.
//! - [`repair`]: which nodes are unhealthy for too long, and what NodeRepairPolicies say about them.
//! - [`static_replicas`]: how many nodes a pool with a fixed number of them lacks or has too many.
//! - [`deletion_order`]: which nodes of a pool with a fixed number of nodes go first.
//! - [`drain`], [`deadline`], [`volumes`]: which pods leave a node next, by when, and which volumes its end waits for.
//! - [`garbage_collection`]: which instances belong to no claim.
//!
//! The controllers read API objects, call these functions and carry out the answers. Times are arguments; durations are those of `std`
//! where they cannot be negative.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod claim_conditions;
pub mod deadline;
pub mod deletion_order;
pub mod drain;
pub mod expiration;
pub mod garbage_collection;
pub mod liveness;
pub mod registration_health;
pub mod repair;
pub mod static_replicas;
pub mod volumes;

#[cfg(test)]
mod fixture;
