//! Drift of pools with a fixed number of nodes: each node gets a replacement made from its pool's template, as far as budgets and the
//! pool's node limit leave room (DIS-249 to DIS-252).
//!
//! Nothing is simulated: the replacement is the same kind of node, whichever pods it gets.

use crate::allowance::Allowance;
use crate::candidate::Candidate;
use crate::command::Command;
use kerf_model::budget::DisruptionReason;
use kerf_model::intern::sym;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::plan::Launch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of nodes of a static pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replicas {
    /// The number the pool asks for (`spec.replicas`).
    pub wanted: u64,
    /// The number that stay, including those being replaced.
    pub staying: u64,
}

/// The drifted candidates of one static pool that its budgets allow to be replaced.
#[derive(Clone, Debug)]
pub struct StaticDrift {
    /// The pool.
    pub pool: Arc<NodePool>,
    /// The candidates, the oldest drift first, no more than the budget allows.
    pub candidates: Vec<Candidate>,
}

impl StaticDrift {
    /// The pool's limit on the number of nodes, if it has one.
    pub fn limit(&self) -> Option<u64> {
        let limits = self.pool.limits.as_ref()?;
        let mut named = limits.iter().filter(|(name, _)| *name == sym::NODES);
        named.next().map(|(_, limit)| u64::try_from(limit).unwrap_or(0))
    }

    /// One command for each of the first `granted` candidates (DIS-250).
    pub fn commands(self, granted: u64) -> impl Iterator<Item = Command> {
        let Self { pool, candidates } = self;
        let granted = usize::try_from(granted).unwrap_or(usize::MAX);
        candidates.into_iter().take(granted).map(move |candidate| Command {
            reason: DisruptionReason::Drifted,
            replacements: vec![Launch::of_template(&pool)],
            candidates: vec![candidate],
            plan: None,
        })
    }
}

/// The candidates static drift may choose from, the oldest drift first (DIS-249).
pub fn statically_drifted(candidates: &[Candidate]) -> Vec<Candidate> {
    let is_drifted = |candidate: &&Candidate| {
        candidate.pool.eligibility == Eligibility::Static && candidate.node.lifecycle.drifted.is_some()
    };
    let mut drifted: Vec<Candidate> = candidates.iter().filter(is_drifted).cloned().collect();
    drifted.sort_by_key(|candidate| {
        let since = candidate.node.lifecycle.drifted.as_ref().map(|(_, since)| *since);
        (since, candidate.node.name.clone())
    });
    drifted
}

/// The drifted candidates that may be replaced now, by pool. Pools that must first shrink, and pools whose `replicas` are unknown, are left
/// out (DIS-250, DIS-252).
pub fn static_drift(
    drifted: &[Candidate],
    allowance: &Allowance,
    replicas: &dyn Fn(&NodePool) -> Option<Replicas>,
) -> Vec<StaticDrift> {
    let mut pools: BTreeMap<Arc<str>, StaticDrift> = BTreeMap::new();
    for candidate in drifted {
        let left = usize::try_from(allowance.left(&candidate.pool.name)).unwrap_or(usize::MAX);
        let of_pool = pools
            .entry(Arc::clone(&candidate.pool.name))
            .or_insert_with(|| StaticDrift {
                pool: Arc::clone(&candidate.pool),
                candidates: Vec::new(),
            });
        if of_pool.candidates.len() < left {
            of_pool.candidates.push(candidate.clone());
        }
    }
    let may_go = |drift: &StaticDrift| {
        let complete = |replicas: Replicas| replicas.staying <= replicas.wanted;
        !drift.candidates.is_empty() && replicas(&drift.pool).is_some_and(complete)
    };
    pools.into_values().filter(may_go).collect()
}
