//! One round of disruption: the methods are evaluated in their order until one has commands (DIS-005 to DIS-007).

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::consolidate;
use crate::evaluation::{Evaluation, Progress, Round};
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use crate::static_drift::replace_drifted;
use crate::verify::Refusals;
use kerf_disruption::{
    Candidate, Unconsolidatable, UnconsolidatableNode, drift, drifted, emptiness, empty, statically_drifted,
    what_if_options,
};

/// Evaluates the methods in their order, beginning with `from`, until one has commands or fails. After commands of emptiness the round goes on
/// up to multi-node consolidation, so that empty nodes do not delay a command that saves more. Single-node consolidation, whose search takes
/// longest and saves least, does not keep empty nodes waiting.
pub fn disrupt(inputs: &Inputs<'_>, from: Method, memory: &mut Memory, progress: &dyn Progress) -> Round {
    let mut round = Round::default();
    let mut after = AfterCommands::new(inputs);
    let mut next = Some(from);
    while let Some(method) = next {
        if !progress.evaluating(method) {
            break;
        }
        let evaluation = evaluate(&after.view(inputs), method, memory, progress);
        let fails = evaluation.error.is_some() && method != Method::SingleNodeConsolidation;
        let goes_on = evaluation.commands.is_empty() || method == Method::Emptiness;
        next = method.next().filter(|_| goes_on && !fails);
        if next == Some(Method::SingleNodeConsolidation) && !after.is_unchanged() {
            next = None;
        }
        if next.is_some() {
            after.start(&evaluation.commands);
        }
        round.evaluations.push(evaluation);
    }
    round
}

fn evaluate(inputs: &Inputs<'_>, method: Method, memory: &mut Memory, progress: &dyn Progress) -> Evaluation {
    let sorted = memory.candidates.sort(inputs, method.class());
    let mut evaluation = Evaluation::new(method, &sorted);
    match method {
        Method::Emptiness => {
            let (eligible, staying) = empty(&sorted.candidates.free);
            evaluation.staying = staying;
            if let Some(mut allowance) = evaluation.admit(inputs, eligible.len()) {
                evaluation.commands.extend(emptiness(&eligible, &mut allowance));
            }
        }
        Method::StaticDrift => {
            let mut eligible = statically_drifted(&sorted.candidates.free);
            if let Some(allowance) = evaluation.admit(inputs, eligible.len()) {
                evaluation.staying = leave_failed(inputs, &mut eligible);
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

/// Removes the candidates whose replacement failed a moment ago, and returns them (deviation at DIS-247).
fn leave_failed(inputs: &Inputs<'_>, drifted: &mut Vec<Candidate>) -> Vec<UnconsolidatableNode> {
    let failed = &inputs.in_flight.failed_replacements;
    let mut staying = Vec::new();
    drifted.retain(|candidate| {
        let until = candidate.node.provider_id.as_ref().and_then(|id| failed.get(id));
        staying.extend(until.map(|until| UnconsolidatableNode {
            index: candidate.index,
            why: Unconsolidatable::ReplacementFailed(*until),
        }));
        until.is_none()
    });
    staying
}

/// Drift of pools whose nodes follow their pods: a drifted node is replaced by what its pods need (DIS-241).
fn replace_by_need(inputs: &Inputs<'_>, sorted: &SortedNodes, evaluation: &mut Evaluation) {
    let mut eligible = drifted(&sorted.candidates.free);
    let Some(allowance) = evaluation.admit(inputs, eligible.len()) else {
        return;
    };
    evaluation.staying = leave_failed(inputs, &mut eligible);
    let refusals = Refusals::new(what_if_options(&inputs.settings.solver));
    let checker = |snapshot: &_, pods: &[_], plan: &_| refusals.check(snapshot, pods, plan);
    let options = refusals.options();
    match drift(inputs.snapshot, &eligible, &allowance, inputs.now, options, &checker) {
        Ok((command, staying)) => {
            evaluation.commands.extend(command);
            evaluation.staying.extend(staying);
        }
        Err(error) => evaluation.error = Some(error),
    }
    evaluation.refused_plans = refusals.into_texts();
}
