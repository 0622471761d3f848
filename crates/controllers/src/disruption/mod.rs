//! Voluntary disruption: finding out which machines are no longer wanted as they are, deciding which of them go, and seeing it through.
//!
//! - [`ClaimConditions`] keeps the claims' `Drifted` and `Consolidatable`.
//! - [`Disruption`] is the loop that decides: one method after the other, one decision at a time.
//! - [`Orchestration`] sees commands through: it waits for replacements, deletes claims, or takes everything back.
//!
//! Where a pool asks for it, blocked nodes also retire (`retirement`).
//!
//! A command lives in memory only. What it leaves in the API server before the claims are deleted is a taint and a condition per node, and
//! replacements that are nodes like any other; after a restart the loop's clean-up takes the former away (DIS-004, DIS-014).

mod annotations;
mod assessment;
mod cleanup;
mod conditions;
mod consolidation;
mod cycle;
pub(crate) mod events;
mod marking;
mod memory;
mod methods;
mod orchestration;
mod registry;
mod retirement;
mod sorting;
mod start;
mod static_drift;

pub(crate) use conditions::ClaimConditions;
pub use consolidation::SearchLimits;
pub(crate) use cycle::Disruption;
pub(crate) use orchestration::Orchestration;
