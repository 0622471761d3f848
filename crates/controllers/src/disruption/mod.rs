//! Voluntary disruption: detects machines that drifted or can be consolidated, and carries out the commands that `decide` returns.
//!
//! - [`ClaimConditions`] keeps the claims' `Drifted` and `Consolidatable`.
//! - [`Disruption`] is the loop that decides: one method after the other, one decision at a time.
//! - [`CommandQueue`] completes commands: it waits for replacements, then deletes the claims, or undoes the command.
//!
//! Where a pool asks for it, blocked nodes also retire (`apply_retirement`). The crate `decide` makes the decisions; this module collects
//! its inputs, carries out its commands and reports its results.
//!
//! A command lives in memory only. What it leaves in the API server before the claims are deleted is a taint and a condition per node, and
//! replacements that are nodes like any other; after a restart the loop's clean-up removes the former (DIS-004, DIS-014).

mod annotations;
mod apply_retirement;
mod cleanup;
mod condition_rules;
mod conditions;
mod destination_taints;
mod disruption_loop;
pub(crate) mod events;
mod progress;
mod queue;
mod report;
mod start;
mod static_replacement;
mod taints;

pub(crate) use condition_rules::update_consolidatable;
pub(crate) use conditions::ClaimConditions;
pub(crate) use disruption_loop::Disruption;
pub(crate) use progress::Progress;
pub(crate) use queue::CommandQueue;
