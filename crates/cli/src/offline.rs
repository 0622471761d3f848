//! The path of `kerf simulate --verify` for callers in the same process: text in, plan and verdict out. Tests and fuzz targets use it to try
//! many inputs without starting a process for each.

use crate::args::CatalogueName;
use crate::decision::{DecisionInputs, Settings, from_sources};
use crate::manifests::{InputError, Source};
use crate::simulate::planned_or_explained;
use jiff::Timestamp;
use kerf_decide::{Memory, provision};
use kerf_model::intern::Interner;
use std::sync::Arc;

/// What came of an input.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What is wrong with the input, as `kerf simulate` would say it; the objects concerned were left out.
    pub errors: Vec<String>,
    /// Pods that get a place.
    pub scheduled: usize,
    /// Pods that get none.
    pub unschedulable: usize,
    /// Pods validation refuses.
    pub ignored: usize,
    /// What the plan checker objects to.
    pub violations: Vec<String>,
}

/// Instance types and settings, read once for any number of inputs.
#[derive(Debug)]
pub struct Planner {
    interner: Arc<Interner>,
    settings: Settings,
}

impl Planner {
    /// The instance types of Karpenter's KWOK provider and default options, at a moment.
    pub fn new(now: Timestamp) -> Self {
        let interner = Arc::new(Interner::default());
        let settings = Settings::of(CatalogueName::Kwok, now, &interner);
        Self { interner, settings }
    }

    /// Plans for the manifests and has the plan checked.
    pub fn plan(&self, manifests: &str) -> Outcome {
        let input = from_sources(vec![source(manifests)], true);
        let mut errors = input.errors;
        let inputs = DecisionInputs::new(input.cluster, &self.settings, &self.interner, &mut errors);
        let decision = provision(&inputs.view(), &mut Memory::default(), &|| false);
        let plan = planned_or_explained(&inputs, &decision);
        let launched: usize = plan.launches.iter().map(|launch| launch.pods.len()).sum();
        let existing: usize = plan.existing.iter().map(|placed| placed.pods.len()).sum();
        Outcome {
            errors: texts(&errors),
            scheduled: launched + existing,
            unschedulable: plan.unschedulable.len() + plan.unattempted.len(),
            ignored: plan.ignored.len(),
            violations: decision.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// Reads manifests as far as they go without instance types, and says what is wrong with them.
pub fn read(manifests: &str) -> Vec<String> {
    let input = from_sources(vec![source(manifests)], true);
    let interner = Arc::new(Interner::default());
    let conventions = kerf_state::Conventions::default();
    let mirror = input.cluster.world.into_mirror(interner, conventions);
    drop(mirror);
    texts(&input.errors)
}

fn source(manifests: &str) -> Source {
    Source {
        name: "input".into(),
        text: manifests.to_owned(),
        from_folder: false,
    }
}

fn texts(errors: &[InputError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}
