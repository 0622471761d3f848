//! The domain of node autoscaling as plain data: the inputs and results of decisions.
//!
//! The input is values that the `state` crate folded from Kubernetes objects; the output is [`snapshot::Snapshot`]s and [`plan::Plan`]s
//! that the pure crates exchange. Nothing here does I/O, knows a clock or draws a random number. Units: `cpu` in milli-cores, other resources in base units
//! (bytes, counts), prices in 10⁻¹² dollars per hour, time as [`jiff::Timestamp`], durations in nanoseconds.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod budget;
pub mod consolidation_back_off;
pub mod in_flight;
pub mod instance_type;
pub mod intern;
mod launched_node;
pub mod node;
pub mod nodepool;
pub mod plan;
pub mod pod;
pub mod price;
pub mod relaxation;
pub mod requirement;
pub mod resources;
pub mod selector;
pub mod snapshot;
pub mod taint;
