//! One round of disruption: the methods are evaluated in their order until one has something to do (DIS-005 to DIS-007).

use crate::candidate_cache::SortedNodes;
use crate::consolidate::consolidate;
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use crate::static_drift::replace_drifted;
use crate::verify::Refusals;
use kerf_disruption::{
    Allowance, Command, Judgement, SimulationError, UnconsolidatableNode, drift, drifted, emptiness, empty,
    statically_drifted, what_if_options,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// What a round came to.
#[derive(Debug, Default)]
pub struct Round {
    /// The methods that were evaluated, in their order. Only the last one has commands.
    pub evaluations: Vec<Evaluation>,
}

/// What the evaluation of one method came to.
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
    /// The candidates that stay, with why, as far as the method found out.
    pub held: Vec<UnconsolidatableNode>,
    /// What Balanced pools said to the sets of nodes that were found, in the order they were asked; the last is about the command (DIS-210).
    pub judgements: Vec<Judgement>,
    /// What is to be done. They may be started together.
    pub commands: Vec<Command>,
    /// How long to wait before the commands are validated and started; zero if they start at once (DIS-127).
    pub wait: Duration,
    /// The search ended before every candidate had been looked at.
    pub timed_out: bool,
    /// How many candidates were looked at.
    pub evaluated: usize,
    /// Pools that the last search did not reach in time and that therefore came first (DIS-175).
    pub first_pools: BTreeSet<Arc<str>>,
    /// The plan checker's objections to plans that were therefore not taken. Each is a bug of the solver.
    pub refused_plans: Vec<String>,
    /// Why the method could not be evaluated (DIS-094).
    pub error: Option<SimulationError>,
}

impl Evaluation {
    fn new(method: Method, sorted: &Arc<SortedNodes>) -> Self {
        Self {
            method,
            sorted: Arc::clone(sorted),
            eligible: 0,
            allowance: None,
            held: Vec::new(),
            judgements: Vec::new(),
            commands: Vec::new(),
            wait: method.validation_wait(),
            timed_out: false,
            evaluated: 0,
            first_pools: BTreeSet::new(),
            refused_plans: Vec::new(),
            error: None,
        }
    }

    /// Notes how many candidates there are to choose from, and what budgets allow if there are any (DIS-019).
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

    /// Whether the search of the current method has to end now. Asked between what-ifs.
    fn is_over(&self) -> bool {
        false
    }
}

/// No limits.
impl Progress for () {}

/// Evaluates the methods in their order, beginning with `from`, until one has commands or fails.
pub fn disrupt(inputs: &Inputs<'_>, from: Method, memory: &mut Memory, progress: &dyn Progress) -> Round {
    let mut round = Round::default();
    let mut next = Some(from);
    while let Some(method) = next {
        if !progress.evaluating(method) {
            break;
        }
        let evaluation = evaluate(inputs, method, memory, progress);
        let fails = evaluation.error.is_some() && method != Method::SingleNodeConsolidation;
        next = method.next().filter(|_| evaluation.commands.is_empty() && !fails);
        round.evaluations.push(evaluation);
    }
    round
}

fn evaluate(inputs: &Inputs<'_>, method: Method, memory: &mut Memory, progress: &dyn Progress) -> Evaluation {
    let sorted = memory.candidates.sort(inputs, method.class());
    let mut evaluation = Evaluation::new(method, &sorted);
    match method {
        Method::Emptiness => {
            let (eligible, held) = empty(&sorted.candidates.free);
            evaluation.held = held;
            if let Some(mut allowance) = evaluation.admit(inputs, eligible.len()) {
                evaluation.commands.extend(emptiness(&eligible, &mut allowance));
            }
        }
        Method::StaticDrift => {
            let eligible = statically_drifted(&sorted.candidates.free);
            if let Some(allowance) = evaluation.admit(inputs, eligible.len()) {
                evaluation.commands = replace_drifted(inputs, &eligible, &allowance);
            }
        }
        Method::Drift => replace_by_need(inputs, &sorted, &mut evaluation),
        Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => {
            consolidate(inputs, &sorted, memory, progress, &mut evaluation);
        }
    }
    evaluation
}

/// Drift of pools whose nodes follow their pods: a drifted node is replaced by what its pods need (DIS-241).
fn replace_by_need(inputs: &Inputs<'_>, sorted: &SortedNodes, evaluation: &mut Evaluation) {
    let eligible = drifted(&sorted.candidates.free);
    let Some(allowance) = evaluation.admit(inputs, eligible.len()) else {
        return;
    };
    let options = what_if_options(&inputs.settings.solver);
    let refusals = Refusals::new(&options);
    let checker = |snapshot: &_, pods: &[_], plan: &_| refusals.check(snapshot, pods, plan);
    match drift(inputs.snapshot, &eligible, &allowance, inputs.now, &options, &checker) {
        Ok((command, held)) => {
            evaluation.commands.extend(command);
            evaluation.held = held;
        }
        Err(error) => evaluation.error = Some(error),
    }
    evaluation.refused_plans = refusals.into_texts();
}
