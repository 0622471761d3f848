//! How many nodes of each pool may still be disrupted for a reason (DIS-080 to DIS-087).

use jiff::Timestamp;
use kerf_model::budget::{BudgetFault, DisruptionReason};
use kerf_model::intern::Sym;
use kerf_model::node::Node;
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many nodes of one pool the budgets allow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolAllowance {
    /// The pool.
    pub pool: Arc<str>,
    /// Nodes counted (DIS-080).
    pub counted: u32,
    /// What budgets allow before subtraction; `u32::MAX` without a limit.
    pub allowed: u32,
    /// Counted nodes that are unavailable already: not ready or being deleted (DIS-081).
    pub consumed: u32,
    /// A budget that cannot be read, if any: it closes the pool (DIS-079).
    pub fault: Option<Arc<str>>,
    /// The pool's unique id, for events.
    pub uid: Arc<str>,
    left: u32,
    /// The pool's name as a label value.
    label: Sym,
}

impl PoolAllowance {
    /// Whether the pool has nodes and its budgets allow none of them to be disrupted; an event then says so (DIS-085).
    pub const fn is_closed(&self) -> bool {
        self.counted > 0 && self.allowed == 0
    }
}

/// How many nodes of every pool the budgets still allow. It decreases as candidates are chosen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowance(BTreeMap<Arc<str>, PoolAllowance>);

impl Allowance {
    /// Computes the allowances for a reason at `now`.
    pub fn new(snapshot: &Snapshot, reason: DisruptionReason, now: Timestamp) -> Self {
        let mut counts: BTreeMap<Sym, (u32, u32)> = BTreeMap::new();
        for node in snapshot.nodes.iter().filter(|node| is_counted(node)) {
            let Some(pool) = node.pool else { continue };
            let (counted, away) = counts.entry(pool).or_default();
            *counted += 1;
            *away += away_count(node);
        }
        let pools = snapshot
            .pools
            .iter()
            .filter(|pool| pool.eligibility != Eligibility::ForeignNodeClass);
        let pools = pools.map(|pool| {
            let (counted, consumed) = counts.get(&pool.label).copied().unwrap_or_default();
            let allowed = pool.disruption.allowed(reason, counted, now);
            let fault = allowed.as_ref().err().map(|fault| Arc::clone(&fault.0));
            let allowed = allowed.map_or(0, |allowed| allowed.unwrap_or(u32::MAX));
            let left = allowed.saturating_sub(consumed);
            (
                Arc::clone(&pool.name),
                PoolAllowance {
                    pool: Arc::clone(&pool.name),
                    counted,
                    allowed,
                    consumed,
                    fault,
                    uid: Arc::clone(&pool.uid),
                    left,
                    label: pool.label,
                },
            )
        });
        Self(pools.collect())
    }

    /// How many nodes of a pool may still be disrupted; 0 for an unknown pool (DIS-086).
    pub fn left(&self, pool: &str) -> u32 {
        self.0.get(pool).map_or(0, |pool| pool.left)
    }

    /// Counts one node of a pool as disrupted and returns `true`, if its budgets still allow one.
    pub fn take(&mut self, pool: &str) -> bool {
        match self.0.get_mut(pool) {
            Some(pool) if pool.left > 0 => {
                pool.left -= 1;
                true
            }
            _ => false,
        }
    }

    /// Whether a pool's budgets allow a node of it to be drained that may itself be among those that are away: it does not use up what its own
    /// drain needs. `None` for an unknown pool.
    pub fn allows_drain(&self, pool: &str, node: Option<&Node>) -> Option<bool> {
        let pool = self.0.get(pool)?;
        let node = node.filter(|node| node.pool == Some(pool.label) && is_counted(node));
        let own = node.map_or(0, away_count);
        Some(pool.consumed.saturating_sub(own) < pool.allowed)
    }

    /// The allowance of each pool, ordered by name.
    pub fn pools(&self) -> impl Iterator<Item = &PoolAllowance> {
        self.0.values()
    }
}

/// Whether a node is counted among those of its pool (DIS-080).
fn is_counted(node: &Node) -> bool {
    node.managed && node.was_initialized() && node.node_name.is_some() && !node.lifecycle.instance_terminating
}

/// 1 for a counted node that is unavailable already, else 0 (DIS-081).
fn away_count(node: &Node) -> u32 {
    u32::from(!node.lifecycle.ready || node.marked_for_deletion || node.lifecycle.deleting)
}

/// A budget that cannot be read. It closes its pool (DIS-079).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InvalidBudget {
    /// The name of the pool.
    pub pool: Arc<str>,
    /// Which of the pool's budgets it is, from 0.
    pub index: usize,
    /// What is wrong with it.
    pub fault: BudgetFault,
}

/// All budgets that cannot be read, those of one pool together (DIS-020).
pub fn budget_faults(snapshot: &Snapshot) -> Vec<InvalidBudget> {
    let ours = snapshot
        .pools
        .iter()
        .filter(|pool| pool.eligibility != Eligibility::ForeignNodeClass);
    let faults = ours.flat_map(|pool| {
        let budgets = pool.disruption.budgets.iter().enumerate();
        budgets.filter_map(|(index, budget)| {
            Some(InvalidBudget {
                pool: Arc::clone(&pool.name),
                index,
                fault: budget.as_ref().err()?.clone(),
            })
        })
    });
    faults.collect()
}
