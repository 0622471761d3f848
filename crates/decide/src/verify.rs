//! What the plan checker objects to in a plan of the solver. An objection is a bug of the solver.

use kerf_check::{CheckOptions, Violation};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, ReservedMode};
use kerf_units::policy::MinValuesPolicy;
use std::sync::{Arc, Mutex, PoisonError};

/// Checks a plan for these pods as strictly as the solver was asked to make it. Empty if the plan keeps every rule.
pub fn violations(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, options: &Options) -> Vec<Violation> {
    let check = CheckOptions {
        strict_min_values: options.min_values_policy == MinValuesPolicy::Strict,
        reserved_capacity: options.reserved == ReservedMode::Strict,
        ..CheckOptions::default()
    };
    kerf_check::verify(snapshot, pods, plan, &check)
}

/// The plan checker as disruption asks it, with a list of its objections.
pub(crate) struct Refusals<'a> {
    options: &'a Options,
    found: Mutex<Vec<String>>,
}

impl<'a> Refusals<'a> {
    pub(crate) fn new(options: &'a Options) -> Self {
        Self {
            options,
            found: Mutex::default(),
        }
    }

    /// Refuses a plan that breaks a rule, and notes what is wrong with it.
    pub(crate) fn check(&self, snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan) -> Result<(), String> {
        let found = violations(snapshot, pods, plan, self.options);
        if found.is_empty() {
            return Ok(());
        }
        let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
        let text = texts.join("; ");
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(text.clone());
        Err(text)
    }

    /// The objections to all plans that were refused.
    pub(crate) fn into_texts(self) -> Vec<String> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
