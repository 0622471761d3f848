//! Emptiness: nodes whose pods need not be rescheduled are deleted without a replacement (DIS-150 to DIS-156).

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use crate::unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
use crate::validation::remaining_candidates;
use kerf_model::budget::DisruptionReason;
use kerf_model::nodepool::Eligibility;
use std::sync::Arc;

/// The empty candidates, highest savings first, and the candidates that their pool's settings or the room of CapacityBuffers exclude (DIS-150,
/// DIS-152).
pub fn empty(candidates: &[Candidate]) -> (Vec<Candidate>, Vec<UnconsolidatableNode>) {
    let (mut eligible, mut staying) = (Vec::new(), Vec::new());
    let dynamic = candidates
        .iter()
        .filter(|candidate| candidate.pool.eligibility != Eligibility::Static);
    for candidate in dynamic {
        if candidate.pool.disruption.consolidate_after.is_none() {
            staying.push(UnconsolidatableNode {
                index: candidate.index,
                why: Unconsolidatable::ConsolidationDisabled(Arc::clone(&candidate.pool.name)),
            });
        } else if candidate.is_empty() && candidate.node.lifecycle.consolidatable {
            match candidate.node.lifecycle.buffer_pods {
                0 => eligible.push(candidate.clone()),
                _ => staying.push(UnconsolidatableNode {
                    index: candidate.index,
                    why: Unconsolidatable::HasBufferPods(Arc::clone(&candidate.node.name)),
                }),
            }
        }
    }
    eligible.sort_by(Candidate::by_savings);
    (eligible, staying)
}

/// One command with every eligible node that budgets allow; `None` if there is none (DIS-087, DIS-153).
pub fn emptiness(eligible: &[Candidate], allowance: &mut Allowance) -> Option<Command> {
    let taken = eligible.iter().filter(|candidate| allowance.take(&candidate.pool.name));
    command(taken.cloned().collect())
}

fn command(candidates: Vec<Candidate>) -> Option<Command> {
    (!candidates.is_empty()).then(|| Command {
        reason: DisruptionReason::Empty,
        candidates,
        replacements: Vec::new(),
        plan: None,
    })
}

/// What remains of a command after its wait.
#[derive(Clone, Debug, Default)]
pub struct Revalidated {
    /// The nodes that may still go, if any (DIS-155).
    pub command: Option<Command>,
    /// By how much the count of failed validations grows (DIS-156).
    pub failed: usize,
}

/// Validates a command again. `eligible` are the empty candidates now, `nominated` says whether pods were nominated to a node of that name
/// meanwhile, `allowance` is fresh. Each candidate is validated by itself; those that pass are returned as they are now.
pub fn revalidate(
    command: &Command,
    eligible: &[Candidate],
    nominated: &dyn Fn(&str) -> bool,
    allowance: &mut Allowance,
) -> Revalidated {
    let survivors = remaining_candidates(command, eligible, &|_| false);
    if survivors.is_empty() {
        return Revalidated {
            command: None,
            failed: command.candidates.len(),
        };
    }
    let lost_to_pods = command
        .candidates
        .iter()
        .filter(|one| nominated(&one.node.name))
        .count();
    let free = survivors
        .iter()
        .filter(|candidate| !nominated(&candidate.node.name))
        .count();
    let within: Vec<Candidate> = survivors
        .into_iter()
        .filter(|candidate| !nominated(&candidate.node.name) && allowance.take(&candidate.pool.name))
        .collect();
    Revalidated {
        failed: lost_to_pods + free - within.len(),
        command: self::command(within),
    }
}
