//! The solver: it computes a [`kerf_model::plan::Plan`] from a snapshot and the pods that need a node.
//!
//! Input is a [`Request`] (an immutable snapshot, pods, nodes to exclude) and [`Options`]. Output is a plan: launches, placements on
//! existing nodes, and a typed reason for every pod that has no place. The solver is pure: no clock, no I/O, no randomness. Equal input and
//! effort give an equal plan at any number of threads. A caller with many questions about one snapshot compiles it once as [`Prepared`].
//! Units are those of the model: milli-cores, bytes, counts, 10⁻¹² dollars per hour.
//!
//! Folders, each importing only the ones before it: `dense` (data structures), `compile` (input to interned problem), `search` (what an
//! assignment may still become), `strategy` (which claim a pod is offered to), `output` (plan and reasons), `bound` (what no
//! plan undercuts), `binder` (what kube-scheduler does with a plan).

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::iter_over_hash_type, clippy::wildcard_enum_match_arm)
)]

mod binder;
mod bound;
mod chance;
mod compile;
mod dense;
mod options;
mod output;
mod parallel;
mod pinned;
mod ranking;
mod search;
mod solve;
mod strategy;

pub use binder::{
    Arrival, Arrivals, BindingForecast, BoundTo, Forecaster, Millis, Nominees, allocation_score, balance_score,
    spread_penalty, spread_score,
};
pub use bound::{cost_bound, cost_bound_of_kinds, cost_bound_of_nodes, cost_gap};
pub use compile::prepared::Prepared;
pub use options::{Options, Request, ReservedMode, WhatIf};
pub use output::EffectiveZone;
pub use pinned::{PinnedPlacements, PinnedRequest};
pub use ranking::PlanRank;
pub use solve::{Winner, explain, solve, winner};
pub use strategy::{Strategy, balanced_nodes_max};
