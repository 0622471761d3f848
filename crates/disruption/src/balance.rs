//! The policy Balanced: what a move saves against what it disrupts, both as shares of their pool (section 8.7 of the disruption contract).

use crate::candidate::Candidate;
use crate::command::{Command, Decision};
use crate::cost::Cost;
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::intern::Sym;
use kerf_model::pod::Owner;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A move passes from a score of 1/K on (DIS-193).
pub const K: i32 = 2;

/// What all nodes of a pool cost, to pay for and to disrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Per hour (DIS-196).
    pub price: Price,
    /// To move everything (DIS-197).
    pub disruption: Cost,
}

/// The totals of every pool that has a candidate (DIS-195).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Balance(BTreeMap<Arc<str>, Totals>);

/// A move against the totals of one pool (DIS-194).
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// Savings' share by disruption's share.
    pub value: f64,
    /// What is saved per hour, the pool's part of it.
    pub savings: Price,
    /// What moving costs.
    pub disruption: Cost,
    /// The pool's totals.
    pub totals: Totals,
    /// Whether the move passes.
    pub approved: bool,
}

/// What one pool says to a move.
#[derive(Clone, PartialEq, Debug)]
pub struct Verdict {
    /// The pool.
    pub pool: Arc<str>,
    /// Its policy.
    pub policy: ConsolidationPolicy,
    /// The score; none where the policy is not Balanced (DIS-202).
    pub score: Option<Score>,
}

/// What the pools of a command's nodes say to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// What would be done.
    pub decision: Decision,
    /// How many nodes would go.
    pub candidates: usize,
    /// One per pool, by name.
    pub verdicts: Vec<Verdict>,
}

impl Verdict {
    /// Whether the pool has nothing against it.
    pub fn approved(&self) -> bool {
        self.score.as_ref().is_none_or(|score| score.approved)
    }
}

impl Judgement {
    /// Whether every pool approves; a command without nodes is approved by nobody (DIS-202, DIS-203).
    pub fn approved(&self) -> bool {
        !self.verdicts.is_empty() && self.verdicts.iter().all(Verdict::approved)
    }

    /// The first score that speaks against the move.
    pub fn objection(&self) -> Option<&Score> {
        let mut scores = self.verdicts.iter().filter_map(|verdict| verdict.score.as_ref());
        scores.find(|score| !score.approved)
    }
}

impl Score {
    /// DIS-194, exact where no amount is beyond reason: the shares are compared by cross-multiplication.
    pub fn new(savings: Price, disruption: Cost, totals: Totals) -> Self {
        let (saved, all) = (savings.pico(), totals.price.pico());
        let (moved, everything) = (disruption.raw(), totals.disruption.raw());
        let known = all > 0 && everything > 0;
        let (value, approved) = if !known || saved <= 0 {
            (0.0, false)
        } else if moved <= 0 {
            (f64::INFINITY, true)
        } else {
            let value = (saved as f64 / all as f64) / (moved as f64 / everything as f64);
            let ours = i128::from(saved).checked_mul(i128::from(everything) * i128::from(K));
            let theirs = i128::from(moved) * i128::from(all);
            (value, ours.map_or(value >= 1.0 / f64::from(K), |ours| ours >= theirs))
        };
        Self {
            value,
            savings,
            disruption,
            totals,
            approved,
        }
    }

    /// The savings as a share of what the pool costs.
    pub fn savings_fraction(&self) -> f64 {
        share(self.savings.pico(), self.totals.price.pico())
    }

    /// The disruption as a share of what the pool would cost to move.
    pub fn disruption_fraction(&self) -> f64 {
        share(self.disruption.raw(), self.totals.disruption.raw())
    }
}

fn share(part: i64, whole: i64) -> f64 {
    if whole > 0 { part as f64 / whole as f64 } else { 0.0 }
}

/// DIS-213.
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = if self.approved { ">=" } else { "<" };
        write!(
            f,
            "score {:.2} {relation} threshold {:.2} (k: {K}, savings {:.1}%, disruption {:.1}%)",
            self.value,
            1.0 / f64::from(K),
            self.savings_fraction() * 100.0,
            self.disruption_fraction() * 100.0,
        )
    }
}

impl Balance {
    /// The totals of the pools that have a candidate; `candidates` are those before any method's filter (DIS-195 to DIS-198).
    pub fn new(snapshot: &Snapshot, candidates: &[Candidate]) -> Self {
        let costs: BTreeMap<usize, Cost> = candidates.iter().map(|one| (one.index, one.cost)).collect();
        let mut by_label: BTreeMap<Sym, Totals> = BTreeMap::new();
        for (index, node) in snapshot.nodes.iter().enumerate() {
            let Some(pool) = node.pool else { continue };
            let totals = by_label.entry(pool).or_default();
            if node.managed {
                totals.price = totals.price + node.price.unwrap_or(Price::ZERO);
            }
            let cost = costs
                .get(&index)
                .copied()
                .unwrap_or_else(|| Cost::of_node(node.own_pods().filter(|pod| pod.owner != Owner::DaemonSet)));
            totals.disruption = totals.disruption + cost;
        }
        let totals = candidates.iter().map(|candidate| {
            let totals = by_label.get(&candidate.pool.label).copied().unwrap_or_default();
            (Arc::clone(&candidate.pool.name), totals)
        });
        Self(totals.collect())
    }

    /// What the pools say to a command (DIS-199 to DIS-204).
    pub fn judge(&self, command: &Command) -> Judgement {
        let mut parts: BTreeMap<&Arc<str>, (ConsolidationPolicy, Price, Cost)> = BTreeMap::new();
        for candidate in &command.candidates {
            let policy = candidate.pool.disruption.consolidation;
            let part = parts
                .entry(&candidate.pool.name)
                .or_insert((policy, Price::ZERO, Cost::default()));
            part.1 = part.1 + candidate.price;
            part.2 = part.2 + candidate.cost;
        }
        let (savings, several) = (command.savings(), parts.len() > 1);
        let all: Price = command.candidates.iter().map(|candidate| candidate.price).sum();
        let verdict = |(pool, (policy, price, cost)): (&Arc<str>, (ConsolidationPolicy, Price, Cost))| {
            let part = if several { part_of(savings, price, all) } else { savings };
            let totals = self.0.get(pool).copied().unwrap_or_default();
            Verdict {
                pool: Arc::clone(pool),
                policy,
                score: (policy == ConsolidationPolicy::Balanced).then(|| Score::new(part, cost, totals)),
            }
        };
        Judgement {
            decision: command.decision(),
            candidates: command.candidates.len(),
            verdicts: parts.into_iter().map(verdict).collect(),
        }
    }

    /// What speaks against even the plain deletion of a node of a Balanced pool (DIS-205). Nothing where totals are not known.
    pub fn hopeless(&self, candidate: &Candidate) -> Option<Score> {
        let balanced = candidate.pool.disruption.consolidation == ConsolidationPolicy::Balanced;
        let totals = self.0.get(&candidate.pool.name).filter(|_| balanced)?;
        let score = Score::new(candidate.price, candidate.cost, *totals);
        (totals.price > Price::ZERO && !score.approved).then_some(score)
    }
}

/// A pool's part of the savings by its part of the prices; all of it where nothing has a price (DIS-202).
fn part_of(savings: Price, price: Price, all: Price) -> Price {
    if all.pico() == 0 {
        return savings;
    }
    let part = i128::from(savings.pico()) * i128::from(price.pico()) / i128::from(all.pico());
    Price::from_pico(i64::try_from(part).unwrap_or(i64::MAX))
}
