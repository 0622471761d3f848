//! Consolidation: nodes that go together, and nodes that go one by one (section 8 of `docs/behaviour/disruption.md`).

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::evaluation::{Evaluation, Progress};
use crate::inputs::Inputs;
use crate::memory::{Memory, PreparedCache, SearchBasis, SearchOutcome, SingleResults};
use crate::method::Method;
use crate::pause::paused_until;
use crate::verify::Refusals;
use kerf_disruption::{
    Allowance, Balance, Candidate, Consolidation, Settings, SimulationError, WhatIf, consolidation_options, interleaved,
};
use kerf_units::policy::CommandsPerPass;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The largest number of commands of one method that a pass starts. Each takes a search, and the first one waits for the last.
const MOST_COMMANDS: usize = 10;

/// Evaluates a method of consolidation (DIS-124 to DIS-126, DIS-158 to DIS-178). After a command it searches again, as if that one had been
/// started, for commands that are independent of it.
pub(crate) fn consolidate(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    memory: &mut Memory,
    progress: &dyn Progress,
    evaluation: &mut Evaluation,
) {
    search(inputs, sorted, memory, progress, evaluation);
    let most = match inputs.settings.commands_per_pass {
        CommandsPerPass::Independent => MOST_COMMANDS,
        CommandsPerPass::One => 1,
    };
    let mut after = AfterCommands::new(inputs);
    // The searches below are about a cluster after commands, so their unreached pools are not kept.
    let unreached_pools = memory.unreached_pools.clone();
    while let Some(last) = evaluation.commands.last()
        && evaluation.commands.len() < most
        && !evaluation.timed_out
        && progress.may_search_on()
    {
        after.start(std::slice::from_ref(last));
        let inputs = after.view(inputs);
        let sorted = Arc::new(SortedNodes::new(&inputs, evaluation.method.class()));
        let mut next = Evaluation::new(evaluation.method, &sorted);
        // Nodes that stay although no command was started yet are not tried again in this pass.
        next.staying.clone_from(&evaluation.staying);
        search(&inputs, &sorted, memory, progress, &mut next);
        evaluation.refused_plans.append(&mut next.refused_plans);
        if next.commands.is_empty() {
            break;
        }
        evaluation.commands.append(&mut next.commands);
        evaluation.approvals.append(&mut next.approvals);
        evaluation.judgements.append(&mut next.judgements);
        evaluation.staying = next.staying;
        evaluation.timed_out = next.timed_out;
    }
    memory.unreached_pools = unreached_pools;
}

/// Searches for one command, unless consolidation is paused. Candidates that were tried before and stay are left out.
fn search(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    memory: &mut Memory,
    progress: &dyn Progress,
    evaluation: &mut Evaluation,
) {
    let (eligible, staying) = sorted.underutilized();
    let tried: BTreeSet<usize> = evaluation.staying.iter().map(|staying| staying.index).collect();
    let new = staying.iter().filter(|staying| !tried.contains(&staying.index));
    evaluation.staying.extend(new.cloned());
    let mut rest = Cow::Borrowed(eligible);
    if !tried.is_empty() {
        rest.to_mut().retain(|candidate| !tried.contains(&candidate.index));
    }
    let eligible = &*rest;
    let Some(allowance) = evaluation.admit(inputs, eligible.len()) else {
        return;
    };
    evaluation.paused_until = paused_until(inputs);
    if evaluation.paused_until.is_some() {
        return;
    }
    let closed = inputs.closed();
    let basis = SearchBasis {
        epoch: inputs.in_flight.consolidation_epoch,
        eligible: eligible.iter().map(|one| Arc::clone(one.claim_uid())).collect(),
        closed: closed.clone(),
        undone_until: inputs.in_flight.undone.iter().map(|undone| undone.until).collect(),
    };
    if memory.searches.contains(evaluation.method, &basis, inputs.now) {
        return;
    }
    let search = Search {
        inputs: *inputs,
        all: &sorted.candidates.free,
        eligible,
        allowance,
        closed,
    };
    let found = match evaluation.method {
        Method::MultiNodeConsolidation => search.several(memory, progress, evaluation),
        Method::Emptiness | Method::StaticDrift | Method::Drift | Method::SingleNodeConsolidation => {
            search.one_by_one(memory, progress, evaluation)
        }
    };
    match found {
        // A search on the cluster after commands is not cached.
        Ok(_) if !inputs.in_flight.receiving.is_empty() => {}
        Ok(outcome) => memory.searches.note(evaluation.method, basis, outcome, inputs.now),
        // The cache does not hold a search that failed (DIS-094).
        Err(error) => evaluation.error = Some(error),
    }
}

/// The plan checker for plans of consolidation.
pub(crate) fn refusals(inputs: &Inputs<'_>) -> Refusals {
    Refusals::new(consolidation_options(&inputs.settings.solver))
}

/// Calls `look` with the consolidation of the snapshot and returns its result. `all` are the candidates before any filter, for the totals of
/// pools.
pub(crate) fn with_consolidation<T>(
    inputs: &Inputs<'_>,
    prepared: &PreparedCache,
    all: &[Candidate],
    closed: Vec<usize>,
    refusals: &Refusals,
    look: impl FnOnce(&Consolidation<'_>) -> T,
) -> Result<T, SimulationError> {
    let options = refusals.options();
    let read = || prepared.read(inputs.snapshot, options);
    let what_if = WhatIf::reading(inputs.snapshot, read, closed, inputs.now, options)?;
    let balance = Balance::new(inputs.snapshot, all);
    let checker = |snapshot: &_, pods: &[_], plan: &_| refusals.check(snapshot, pods, plan);
    Ok(look(&Consolidation {
        what_if: &what_if,
        balance: &balance,
        settings: Settings {
            spot_to_spot: inputs.settings.spot_to_spot,
            savings_per_pod: inputs.settings.savings_per_pod,
            min_savings: inputs.settings.min_savings,
            replacements: inputs.settings.replacements,
            threads: inputs.settings.solver.threads,
            ..Settings::default()
        },
        undone: &inputs.in_flight.undone,
        checker: &checker,
    }))
}

/// A search among candidates.
struct Search<'a> {
    inputs: Inputs<'a>,
    /// The candidates before any filter.
    all: &'a [Candidate],
    eligible: &'a [Candidate],
    allowance: Allowance,
    /// The nodes that take no pods.
    closed: Vec<usize>,
}

impl Search<'_> {
    /// Searches for nodes that can be removed together.
    fn several(
        mut self,
        memory: &mut Memory,
        progress: &dyn Progress,
        evaluation: &mut Evaluation,
    ) -> Result<SearchOutcome, SimulationError> {
        let (closed, refusals) = (self.closed.clone(), refusals(&self.inputs));
        let found = with_consolidation(&self.inputs, &memory.prepared, self.all, closed, &refusals, |all| {
            all.multi(self.eligible, &mut self.allowance, &|| progress.is_over())
        });
        evaluation.refused_plans.extend(refusals.into_texts());
        let found = found?;
        let outcome = SearchOutcome {
            found: found.command.is_some(),
            constrained: found.constrained,
            timed_out: found.timed_out,
        };
        evaluation.timed_out = found.timed_out;
        evaluation.evaluated = found.results.len();
        evaluation.judgements.extend(found.judgement.clone());
        if found.command.is_some() {
            evaluation.approvals.extend(found.judgement);
        }
        evaluation.commands.extend(found.command);
        memory.single_results = Some(SingleResults {
            snapshot: Arc::clone(self.inputs.snapshot),
            closed: self.closed,
            results: found.results,
        });
        Ok(outcome)
    }

    /// Searches for one node that can be removed. Pools that the last search did not reach come first (DIS-174, DIS-177).
    fn one_by_one(
        self,
        memory: &mut Memory,
        progress: &dyn Progress,
        evaluation: &mut Evaluation,
    ) -> Result<SearchOutcome, SimulationError> {
        let of_this =
            |known: &SingleResults| Arc::ptr_eq(&known.snapshot, self.inputs.snapshot) && known.closed == self.closed;
        let known = memory.single_results.take().filter(of_this);
        let known = known.map(|known| known.results).unwrap_or_default();
        evaluation.first_pools.clone_from(&memory.unreached_pools);
        let order = interleaved(self.eligible, &evaluation.first_pools);
        let (closed, refusals) = (self.closed.clone(), refusals(&self.inputs));
        let found = with_consolidation(&self.inputs, &memory.prepared, self.all, closed, &refusals, |all| {
            all.single(&order, &self.allowance, &known, &|| progress.is_over())
        });
        evaluation.refused_plans.extend(refusals.into_texts());
        let found = found?;
        let outcome = SearchOutcome {
            found: found.command.is_some(),
            constrained: found.constrained,
            timed_out: found.timed_out,
        };
        if found.command.is_none() {
            memory.unreached_pools = found.unreached_pools;
        }
        evaluation.timed_out = found.timed_out;
        evaluation.evaluated = found.evaluated;
        evaluation.staying.extend(found.staying);
        if found.command.is_some() {
            evaluation.approvals.extend(found.judgements.last().cloned());
        }
        evaluation.judgements.extend(found.judgements);
        evaluation.commands.extend(found.command);
        Ok(outcome)
    }
}
