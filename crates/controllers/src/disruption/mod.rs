//! Voluntary disruption: finding out which machines are no longer wanted as they are, deciding which of them go, and seeing it through.
//!
//! - [`ClaimConditions`] keeps the claims' `Drifted` and `Consolidatable`.
//! - [`Disruption`] is the loop that decides: one method after the other, one decision at a time.
//! - [`CommandQueue`] sees commands through: it waits for replacements, deletes claims, or takes everything back.
//!
//! Where a pool asks for it, blocked nodes also retire (`apply_retirement`). What to do is decided by the crate `decide`; this module takes
//! its inputs, carries its commands out and reports what it found.
//!
//! A command lives in memory only. What it leaves in the API server before the claims are deleted is a taint and a condition per node, and
//! replacements that are nodes like any other; after a restart the loop's clean-up takes the former away (DIS-004, DIS-014).

mod annotations;
mod apply_retirement;
mod cleanup;
mod condition_rules;
mod conditions;
mod disruption_loop;
pub(crate) mod events;
mod progress;
mod queue;
mod report;
mod start;
mod static_replacement;
mod taints;

pub(crate) use condition_rules::note_pod_event;
pub(crate) use conditions::ClaimConditions;
pub(crate) use disruption_loop::Disruption;
pub(crate) use progress::Progress;
pub(crate) use queue::CommandQueue;
