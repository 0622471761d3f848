//! The results of a round of disruption and of the evaluation of one method.

use crate::candidate_cache::SortedNodes;
use crate::inputs::Inputs;
use crate::method::Method;
use jiff::Timestamp;
use kerf_disruption::{Allowance, Command, Judgement, SimulationError, UnconsolidatableNode};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The result of a round.
#[derive(Debug, Default)]
pub struct Round {
    /// The methods that were evaluated, in their order. Each was evaluated as if the commands before it had been started.
    pub evaluations: Vec<Evaluation>,
}

impl Round {
    /// The commands of all methods, in the order in which they were found.
    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.evaluations.iter().flat_map(|evaluation| &evaluation.commands)
    }
}

/// The result of the evaluation of one method.
#[derive(Debug)]
pub struct Evaluation {
    /// The method.
    pub method: Method,
    /// The nodes as the method sees them: candidates, and blocked nodes with what blocks each.
    pub sorted: Arc<SortedNodes>,
    /// How many candidates the method could choose from (DIS-019).
    pub eligible: usize,
    /// What budgets allowed when the evaluation began; `None` if there was nothing to choose from.
    pub allowance: Option<Allowance>,
    /// The candidates that were evaluated and stay, each with the reason.
    pub staying: Vec<UnconsolidatableNode>,
    /// The pools' judgements of the sets of nodes that were found, in the order of the search (DIS-210).
    pub judgements: Vec<Judgement>,
    /// The commands to start together. Each was found as if those before it had been started, and none moves pods to a node that another
    /// one disrupts or moves pods to.
    pub commands: Vec<Command>,
    /// The pools' judgement of each command; empty for methods that save no money.
    pub approvals: Vec<Judgement>,
    /// How long to wait before the commands are validated and started; zero if they start at once (DIS-127).
    pub wait: Duration,
    /// When the method may search again, if it did not search because pods that consolidation moved have not settled.
    pub paused_until: Option<Timestamp>,
    /// Whether the search ended before every candidate was evaluated.
    pub timed_out: bool,
    /// How many candidates were evaluated.
    pub evaluated: usize,
    /// Pools that the last search did not reach in time and that therefore came first (DIS-175).
    pub first_pools: BTreeSet<Arc<str>>,
    /// The plan checker's objections to plans that were therefore not taken. Each is a bug of the solver.
    pub refused_plans: Vec<String>,
    /// Why the method could not be evaluated (DIS-094).
    pub error: Option<SimulationError>,
}

impl Evaluation {
    pub(crate) fn new(method: Method, sorted: &Arc<SortedNodes>) -> Self {
        Self {
            method,
            sorted: Arc::clone(sorted),
            eligible: 0,
            allowance: None,
            staying: Vec::new(),
            judgements: Vec::new(),
            commands: Vec::new(),
            approvals: Vec::new(),
            wait: method.validation_wait(),
            paused_until: None,
            timed_out: false,
            evaluated: 0,
            first_pools: BTreeSet::new(),
            refused_plans: Vec::new(),
            error: None,
        }
    }

    /// Records how many candidates there are to choose from and, if there are any, what budgets allow (DIS-019). Returns the latter.
    pub(crate) fn admit(&mut self, inputs: &Inputs<'_>, eligible: usize) -> Option<Allowance> {
        self.eligible = eligible;
        if eligible > 0 {
            self.allowance = Some(Allowance::new(inputs.snapshot, self.method.reason(), inputs.now));
        }
        self.allowance.clone()
    }
}

/// The caller's view of a round while it is computed: when it has to end, and how long each method takes.
pub trait Progress: Sync {
    /// Called before each method; `false` ends the round before it.
    fn evaluating(&self, _method: Method) -> bool {
        true
    }

    /// Whether the current method may search for another command after it found one. Its commands wait meanwhile.
    fn may_search_on(&self) -> bool {
        true
    }

    /// Whether the search of the current method has to end now. Called between what-ifs.
    fn is_over(&self) -> bool {
        false
    }
}

/// No limits.
impl Progress for () {}
