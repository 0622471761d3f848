//! What the plan checker has against a plan of the solver. Whatever it finds is a bug of the solver.

use std::sync::Arc;

use kerf_check::{CheckOptions, Violation};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{MinValuesPolicy, Options, ReservedMode};

/// Checks a plan as strictly as the solver was asked to make it.
pub fn violations(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, options: &Options) -> Vec<Violation> {
    let check = CheckOptions {
        strict_min_values: options.min_values_policy == MinValuesPolicy::Strict,
        reserved_capacity: options.reserved == ReservedMode::Strict,
        ..CheckOptions::default()
    };
    kerf_check::verify(snapshot, pods, plan, &check)
}
