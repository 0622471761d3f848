//! Consolidation: nodes that go together, and nodes that go one by one (section 8 of the disruption contract).

use crate::candidate_cache::SortedNodes;
use crate::evaluation::{Evaluation, Progress};
use crate::inputs::Inputs;
use crate::memory::{Memory, PreparedCache, SearchBasis, SearchOutcome, SingleResults};
use crate::method::Method;
use crate::verify::Refusals;
use kerf_disruption::{
    Allowance, Balance, Candidate, Consolidation, Settings, SimulationError, Unconsolidatable, UnconsolidatableNode,
    WhatIf, consolidation_options, interleaved,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Evaluates a method of consolidation (DIS-124 to DIS-126, DIS-158 to DIS-178).
pub(crate) fn consolidate(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    memory: &mut Memory,
    progress: &dyn Progress,
    evaluation: &mut Evaluation,
) {
    let (eligible, held) = sorted.underutilized();
    evaluation.held.clone_from(held);
    let eligible = without_resting(inputs, eligible, evaluation);
    let Some(allowance) = evaluation.admit(inputs, eligible.len()) else {
        return;
    };
    let closed = inputs.closed();
    let uid = |candidate: &Candidate| candidate.node.lifecycle.claim_uid.clone().unwrap_or_default();
    let basis = SearchBasis {
        epoch: inputs.in_flight.consolidation_epoch,
        eligible: eligible.iter().map(uid).collect(),
        closed: closed.clone(),
    };
    if memory.fruitless.contains(evaluation.method, &basis, inputs.now) {
        return;
    }
    let search = Search {
        inputs: *inputs,
        all: &sorted.candidates.free,
        eligible: &eligible,
        allowance,
        closed,
    };
    let found = match evaluation.method {
        Method::MultiNodeConsolidation => search.several(memory, progress, evaluation),
        _ => search.one_by_one(memory, progress, evaluation),
    };
    match found {
        Ok(outcome) => memory.fruitless.note(evaluation.method, basis, outcome, inputs.now),
        // It is no search in vain, which would be remembered (DIS-094).
        Err(error) => evaluation.error = Some(error),
    }
}

/// The candidates none of whose pods rest; the others are noted among those that stay.
fn without_resting<'a>(
    inputs: &Inputs<'_>,
    eligible: &'a [Candidate],
    evaluation: &mut Evaluation,
) -> Cow<'a, [Candidate]> {
    let until = |candidate: &Candidate| inputs.in_flight.resting_until(&candidate.pods, inputs.now);
    let resting = eligible.iter().filter_map(|candidate| {
        Some(UnconsolidatableNode {
            index: candidate.index,
            why: Unconsolidatable::Resting(until(candidate)?),
        })
    });
    let resting: Vec<UnconsolidatableNode> = resting.collect();
    if resting.is_empty() {
        return Cow::Borrowed(eligible);
    }
    let indices: BTreeSet<usize> = resting.iter().map(|one| one.index).collect();
    evaluation.held.extend(resting);
    let free = eligible.iter().filter(|one| !indices.contains(&one.index));
    Cow::Owned(free.cloned().collect())
}

/// Lets `look` search with the solver prepared for the snapshot. `all` are the candidates before any filter, for the totals of pools.
pub(crate) fn with_consolidation<T>(
    inputs: &Inputs<'_>,
    prepared: &PreparedCache,
    all: &[Candidate],
    closed: Vec<usize>,
    refused_plans: &mut Vec<String>,
    look: impl FnOnce(&Consolidation<'_>) -> T,
) -> Result<T, SimulationError> {
    let options = consolidation_options(&inputs.settings.solver);
    let read = || prepared.read(inputs.snapshot, &options);
    let what_if = WhatIf::reading(inputs.snapshot, read, closed, inputs.now, &options)?;
    let balance = Balance::new(inputs.snapshot, all);
    let refusals = Refusals::new(&options);
    let checker = |snapshot: &_, pods: &[_], plan: &_| refusals.check(snapshot, pods, plan);
    let found = look(&Consolidation {
        what_if: &what_if,
        balance: &balance,
        settings: Settings {
            spot_to_spot: inputs.settings.spot_to_spot,
            threads: inputs.settings.solver.threads,
            ..Settings::default()
        },
        checker: &checker,
    });
    refused_plans.extend(refusals.into_texts());
    Ok(found)
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
    /// Looks for nodes that go together.
    fn several(
        mut self,
        memory: &mut Memory,
        progress: &dyn Progress,
        evaluation: &mut Evaluation,
    ) -> Result<SearchOutcome, SimulationError> {
        let (closed, refused) = (self.closed.clone(), &mut evaluation.refused_plans);
        let found = with_consolidation(&self.inputs, &memory.prepared, self.all, closed, refused, |all| {
            all.multi(self.eligible, &mut self.allowance, &|| progress.is_over())
        })?;
        let outcome = SearchOutcome {
            found: found.command.is_some(),
            constrained: found.constrained,
            timed_out: found.timed_out,
        };
        evaluation.timed_out = found.timed_out;
        evaluation.evaluated = found.results.len();
        evaluation.judgements.extend(found.judgement);
        evaluation.commands.extend(found.command);
        memory.single_results = Some(SingleResults {
            snapshot: Arc::clone(self.inputs.snapshot),
            closed: self.closed,
            results: found.results,
        });
        Ok(outcome)
    }

    /// Looks for one node that goes, pools that the last search did not reach first (DIS-174, DIS-177).
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
        let (closed, refused) = (self.closed.clone(), &mut evaluation.refused_plans);
        let found = with_consolidation(&self.inputs, &memory.prepared, self.all, closed, refused, |all| {
            all.single(&order, &self.allowance, &known, &|| progress.is_over())
        })?;
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
        evaluation.held.extend(found.held);
        evaluation.judgements.extend(found.judgements);
        evaluation.commands.extend(found.command);
        Ok(outcome)
    }
}
