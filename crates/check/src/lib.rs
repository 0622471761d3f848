//! The plan checker: slow and obviously right.
//!
//! The input is a [`kerf_model::snapshot::Snapshot`], the pods a pass was asked to place and the [`kerf_model::plan::Plan`]; the output
//! is every [`Violation`] of the Kubernetes scheduling rules and of the plan's own consistency. It shares data types with the solver and
//! no logic, so that a mistake there is not repeated here. [`filter`] answers the same rules pod by pod as kube-scheduler does, for the
//! embedded cluster. Amounts are those of the model: milli-cores, bytes, counts, 10⁻¹² dollars.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

mod accounting;
mod existing;
pub mod filter;
mod id_vec;
mod launch;
mod limits;
mod outcome;
mod rules;
mod text;
mod topology;
mod verify;
mod violation;

pub use verify::verify;
pub use violation::{CheckOptions, Rule, Violation};
