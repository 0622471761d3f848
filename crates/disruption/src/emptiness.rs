//! Emptiness: nodes on which nothing needs a place go without a replacement.

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use kerf_model::budget::DisruptionReason;
use kerf_model::nodepool::Eligibility;

/// One command with every empty node the budgets allow, or none (DIS-050, DIS-087, DIS-115, DIS-117, DIS-119).
pub fn emptiness(candidates: &[Candidate], allowance: &mut Allowance) -> Option<Command> {
    let mut empty: Vec<&Candidate> = candidates.iter().filter(|candidate| is_eligible(candidate)).collect();
    // Savings per disruption, highest first (DIS-122); an empty node's disruption is the same for all.
    empty.sort_by(|a, b| b.price.cmp(&a.price).then_with(|| a.node.name.cmp(&b.node.name)));
    let taken: Vec<Candidate> = empty
        .into_iter()
        .filter(|candidate| allowance.take(&candidate.pool.name))
        .cloned()
        .collect();
    (!taken.is_empty()).then(|| Command {
        reason: DisruptionReason::Empty,
        candidates: taken,
        replacements: Vec::new(),
        plan: None,
    })
}

fn is_eligible(candidate: &Candidate) -> bool {
    candidate.pool.eligibility != Eligibility::Static
        && candidate.pool.disruption.consolidate_after.is_some()
        && candidate.node.lifecycle.consolidatable
        && candidate.is_empty()
}
