//! The plan checker's objections to a plan of the solver. Each is a bug of the solver.

use kerf_check::{CheckOptions, Violation};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_scheduler::{Options, ReservedMode};
use kerf_units::policy::MinValuesPolicy;
use std::sync::{Arc, Mutex, PoisonError};

/// Checks a plan for these pods under the options it was made with. Returns the broken rules.
pub fn violations(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, options: &Options) -> Vec<Violation> {
    let check = CheckOptions {
        strict_min_values: options.min_values_policy == MinValuesPolicy::Strict,
        reserved_capacity: options.reserved == ReservedMode::Strict,
        ..CheckOptions::default()
    };
    kerf_check::verify(snapshot, pods, plan, &check)
}

/// What is wrong with a plan, a text for each broken rule.
type PlanCheck = fn(&Snapshot, &[Arc<Pod>], &Plan, &Options) -> Vec<String>;

/// The plan checker as disruption asks it about plans made with some options. Collects its objections.
pub(crate) struct Refusals {
    options: Options,
    check: PlanCheck,
    found: Mutex<Vec<String>>,
}

impl Refusals {
    pub(crate) fn new(options: Options) -> Self {
        Self::by(options, |snapshot, pods, plan, options| {
            let found = violations(snapshot, pods, plan, options);
            found.iter().map(ToString::to_string).collect()
        })
    }

    /// [`Self::new`] with the check to use.
    pub(crate) fn by(options: Options, check: PlanCheck) -> Self {
        Self {
            options,
            check,
            found: Mutex::default(),
        }
    }

    /// The options with which the plans are made.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Refuses a plan that breaks a rule, and records the objection.
    pub(crate) fn check(&self, snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan) -> Result<(), String> {
        let found = (self.check)(snapshot, pods, plan, &self.options);
        if found.is_empty() {
            return Ok(());
        }
        let text = found.join("; ");
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(text.clone());
        Err(text)
    }

    /// The objections to all plans that were refused.
    pub(crate) fn into_texts(self) -> Vec<String> {
        self.found.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}
