//! A compiled question together with the specs that every assignment starts from.

use crate::compile::problem::Problem;
use crate::compile::templates::{Template, TemplateId};
use crate::dense::ids::IdVec;
use crate::search::specs::{ClaimSpecs, SpecId};

/// A problem, and the spec of each template before a pod is placed.
#[derive(Debug)]
pub(crate) struct Instance<'a> {
    pub(crate) problem: Problem<'a>,
    pub(super) specs: ClaimSpecs,
    initial_specs: IdVec<Template, SpecId>,
}

impl<'a> Instance<'a> {
    pub(crate) fn new(problem: Problem<'a>) -> Self {
        let mut specs = ClaimSpecs::default();
        let initial_specs = problem
            .templates
            .entries()
            .map(|(id, template)| specs.intern(&problem, id, template.requirements.clone()))
            .collect();
        Self {
            problem,
            specs,
            initial_specs,
        }
    }

    /// The spec of a new claim of a template before a pod is placed on it.
    pub(crate) fn initial_spec(&self, template: TemplateId) -> SpecId {
        self.initial_specs[template]
    }
}
