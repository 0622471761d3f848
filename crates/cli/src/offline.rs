//! The path of `kerf simulate --verify` for callers in the same process: text in, plan and verdict out. Tests and fuzz targets use it to try
//! many inputs without starting a process for each. [`ListedCluster`] is the path of the commands that read an API server.

use crate::args::CatalogueName;
pub use crate::decision::KINDS;
use crate::decision::{DecisionInputs, Settings, from_lists, from_sources};
use crate::manifests::{InputError, Source};
use crate::simulate::planned_or_explained;
use jiff::Timestamp;
use kerf_aws::options::AwsFeatureGates;
use kerf_decide::{Forecast, Memory, Method, Provision, Round, disrupt, provision};
use kerf_model::in_flight::InFlight;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use kerf_model::snapshot::Snapshot;
use serde_json::Value;
use std::sync::Arc;

/// The result of reading an input.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The faults of the input, as `kerf simulate` prints them; the objects concerned were left out.
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
        let input = from_sources(vec![source(manifests)], true, AwsFeatureGates::default());
        let mut errors = input.errors;
        let inputs = DecisionInputs::new(input.cluster, &self.settings, &self.interner, &mut errors);
        let decision = provision(&inputs.view(), &mut Memory::default(), &|| false);
        let plan = planned_or_explained(&inputs, &decision);
        Outcome {
            errors: texts(&errors),
            scheduled: plan.launched_pods() + plan.placed_pods(),
            unschedulable: plan.unschedulable.len() + plan.unattempted.len(),
            ignored: plan.ignored.len(),
            violations: decision.violations.iter().map(ToString::to_string).collect(),
        }
    }
}

/// A cluster as `kerf simulate` and `kerf explain` read it from an API server, and what they decide about it.
#[derive(Debug)]
pub struct ListedCluster(DecisionInputs);

impl ListedCluster {
    /// Reads the answers of an API server to requests for lists of all [`KINDS`]. Gives what could not be read, too.
    pub fn read(
        lists: Vec<Value>,
        catalogue: &Arc<Catalogue>,
        settings: &kerf_decide::Settings,
        now: Timestamp,
        interner: &Arc<Interner>,
    ) -> (Self, Vec<String>) {
        let input = from_lists(&"server".into(), lists);
        let mut settings = Settings::with(Arc::clone(catalogue), settings.clone(), now, interner);
        // What they refer to is not among the lists.
        settings.capacity_buffers = false;
        let mut errors = input.errors;
        let inputs = DecisionInputs::new(input.cluster, &settings, interner, &mut errors);
        (Self(inputs), texts(&errors))
    }

    /// The cluster as decisions see it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.0.snapshot
    }

    /// The actions in flight, as far as objects show them.
    pub fn in_flight(&self) -> &InFlight {
        self.0.view().in_flight
    }

    /// The same cluster with what only its controller knows: the actions in flight, and until when nodes are promised to pods.
    #[must_use]
    pub fn knowing(self, in_flight: InFlight, nominations: &Snapshot) -> Self {
        Self(self.0.knowing(in_flight, nominations))
    }

    /// What `kerf simulate` plans for the pods that wait, with what its controller remembers.
    pub fn provision(&self, memory: &mut Memory) -> Provision {
        provision(&self.0.view(), memory, &|| false)
    }

    /// A round of disruption as `kerf simulate --consolidate` computes it, with what its controller remembers.
    pub fn disrupt(&self, from: Method, memory: &mut Memory) -> Round {
        disrupt(&self.0.view(), from, memory, &())
    }

    /// The commands that `kerf simulate --consolidate` prints.
    pub fn forecast(&self) -> Forecast {
        crate::consolidate::forecast(&self.0, None)
    }
}

/// Reads manifests as far as they go without instance types, and says what is wrong with them.
pub fn read(manifests: &str) -> Vec<String> {
    let input = from_sources(vec![source(manifests)], true, AwsFeatureGates::default());
    let interner = Arc::new(Interner::default());
    let conventions = kerf_state::Conventions::default();
    let mirror = input.cluster.objects.into_mirror(interner, conventions);
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
