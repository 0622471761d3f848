//! What an invariant is, and which there are.

use super::{abandonment, budgets, finalizers, leadership, pairs, pod_budgets, protection, replacements, running};
use crate::caller::Caller;
use crate::view::{Event, View};

/// A rule.
pub(crate) trait Invariant: Send {
    /// What it is called in reports.
    fn name(&self) -> &'static str;

    /// Looks at an event, which is part of what is seen already; says what is wrong.
    fn after(&mut self, _seen: &View, _caller: Caller, _event: &Event) -> Option<String> {
        None
    }

    /// What is not as it must be once nothing goes on any more.
    fn quiet(&self, _seen: &View) -> Vec<String> {
        Vec::new()
    }
}

/// All of them.
pub(crate) fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(pod_budgets::PodBudgets::default()),
        Box::new(budgets::Budgets::default()),
        Box::new(protection::Protection),
        Box::new(abandonment::Abandonment),
        Box::new(replacements::Replacements::default()),
        Box::new(pairs::Pairs),
        Box::new(running::Running),
        Box::new(finalizers::Finalizers),
        Box::new(leadership::Leadership),
    ]
}
