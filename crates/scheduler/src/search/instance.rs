//! A compiled question together with the specs that every assignment starts from.

use crate::compile::problem::Problem;
use crate::search::specs::{ClaimSpecs, SpecId};

/// A problem, and the spec of each template before a pod is placed.
#[derive(Debug)]
pub(crate) struct Instance<'a> {
    pub(crate) problem: Problem<'a>,
    pub(super) specs: ClaimSpecs,
    /// By template.
    initial_specs: Vec<SpecId>,
}

impl<'a> Instance<'a> {
    pub(crate) fn new(problem: Problem<'a>) -> Self {
        let mut specs = ClaimSpecs::default();
        let initial_specs = (0..problem.templates.len())
            .map(|at| specs.intern(&problem, at, problem.templates[at].requirements.clone()))
            .collect();
        Self {
            problem,
            specs,
            initial_specs,
        }
    }

    /// The spec of a new claim of a template before a pod is placed on it.
    pub(crate) fn initial_spec(&self, template: usize) -> SpecId {
        self.initial_specs[template]
    }
}
