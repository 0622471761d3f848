//! The policy Balanced compares what a command saves with what it disrupts, both as shares of the pool's totals (DIS-190 to DIS-214).

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

/// A command passes if its score is at least 1 divided by this (DIS-193).
pub const SCORE_DIVISOR: i32 = 2;

/// The price and the disruption cost of all nodes of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The price per hour (DIS-196).
    pub price: Price,
    /// The cost of moving every pod (DIS-197).
    pub disruption: Cost,
}

/// The totals of every pool that has a candidate (DIS-195).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Balance(BTreeMap<Arc<str>, Totals>);

/// A command compared with the totals of one pool (DIS-194).
#[derive(Clone, PartialEq, Debug)]
pub struct Score {
    /// The savings' share divided by the disruption's share.
    pub value: f64,
    /// The pool's part of the savings per hour.
    pub savings: Price,
    /// What moving costs.
    pub disruption: Cost,
    /// The pool's totals.
    pub totals: Totals,
    /// Whether the command passes.
    pub approved: bool,
}

/// One pool's judgement of a command.
#[derive(Clone, PartialEq, Debug)]
pub struct PoolJudgement {
    /// The pool.
    pub pool: Arc<str>,
    /// Its policy.
    pub policy: ConsolidationPolicy,
    /// The score; `None` if the policy is not Balanced (DIS-202).
    pub score: Option<Score>,
}

/// The judgement of a command by the pools of its nodes.
#[derive(Clone, PartialEq, Debug)]
pub struct Judgement {
    /// What would be done.
    pub decision: Decision,
    /// How many nodes would go.
    pub candidates: usize,
    /// One per pool, by name.
    pub by_pool: Vec<PoolJudgement>,
}

impl PoolJudgement {
    /// Whether the pool approves.
    pub fn approved(&self) -> bool {
        self.score.as_ref().is_none_or(|score| score.approved)
    }
}

impl Judgement {
    /// Whether every pool approves. A command without nodes is not approved (DIS-202, DIS-203).
    pub fn approved(&self) -> bool {
        !self.by_pool.is_empty() && self.by_pool.iter().all(PoolJudgement::approved)
    }

    /// The first score that is too low.
    pub fn objection(&self) -> Option<&Score> {
        let mut scores = self.by_pool.iter().filter_map(|of_pool| of_pool.score.as_ref());
        scores.find(|score| !score.approved)
    }
}

impl Score {
    /// Compares shares by cross-multiplication, which is exact unless an amount overflows (DIS-194).
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
            let ours = i128::from(saved).checked_mul(i128::from(everything) * i128::from(SCORE_DIVISOR));
            let theirs = i128::from(moved) * i128::from(all);
            (
                value,
                ours.map_or(value >= 1.0 / f64::from(SCORE_DIVISOR), |ours| ours >= theirs),
            )
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

/// The message of events and logs (DIS-213).
impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let relation = if self.approved { ">=" } else { "<" };
        write!(
            f,
            "score {:.2} {relation} threshold {:.2} (k: {SCORE_DIVISOR}, savings {:.1}%, disruption {:.1}%)",
            self.value,
            1.0 / f64::from(SCORE_DIVISOR),
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

    /// Judges a command (DIS-199 to DIS-204).
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
        let of_pool = |(pool, (policy, price, cost)): (&Arc<str>, (ConsolidationPolicy, Price, Cost))| {
            let part = if several { part_of(savings, price, all) } else { savings };
            let totals = self.0.get(pool).copied().unwrap_or_default();
            PoolJudgement {
                pool: Arc::clone(pool),
                policy,
                score: (policy == ConsolidationPolicy::Balanced).then(|| Score::new(part, cost, totals)),
            }
        };
        Judgement {
            decision: command.decision(),
            candidates: command.candidates.len(),
            by_pool: parts.into_iter().map(of_pool).collect(),
        }
    }

    /// The score of deleting a node of a Balanced pool without a replacement, if even that score is too low (DIS-205). `None` if the pool's
    /// totals are unknown.
    pub fn hopeless(&self, candidate: &Candidate) -> Option<Score> {
        let balanced = candidate.pool.disruption.consolidation == ConsolidationPolicy::Balanced;
        let totals = self.0.get(&candidate.pool.name).filter(|_| balanced)?;
        let score = Score::new(candidate.price, candidate.cost, *totals);
        (totals.price > Price::ZERO && !score.approved).then_some(score)
    }
}

/// A pool's part of the savings, in proportion to its part of the prices; all of the savings if no node has a price (DIS-202).
fn part_of(savings: Price, price: Price, all: Price) -> Price {
    if all.pico() == 0 {
        return savings;
    }
    let part = i128::from(savings.pico()) * i128::from(price.pico()) / i128::from(all.pico());
    Price::from_pico(i64::try_from(part).unwrap_or(i64::MAX))
}
