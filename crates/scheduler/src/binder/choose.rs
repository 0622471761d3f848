//! The choice among plans by what they cost after kube-scheduler has bound their pods and the machines of the second round are launched.

use super::arrivals::Arrivals;
use super::forecast::{BindingPlace, Forecaster, Round};
use super::later_pods::later_pods;
use crate::compile::prepared::Prepared;
use crate::compile::queue::PodId;
use crate::compile::templates::TemplateId;
use crate::compile::topology::ClaimId;
use crate::options::{Options, WhatIf};
use crate::output::plan;
use crate::strategy::{BoundPlace, Objective, Outcome, Rank, Ranked, Stop, equal_nodes, rebind, repack_with_room};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use std::sync::Arc;

/// The largest number of plans whose forecasts are computed.
const FORECASTS_MAX: usize = 24;
/// Pods times nodes, over all forecasts. Bounds the work. A plan with more than half of it gets no forecast: none of a second plan could be
/// made to compare it with.
const ATTEMPTS_MAX: usize = 4_000_000;
/// Up to this many pods times nodes, plans are chosen by eight scale-ups.
const EIGHT_ARRIVALS_MAX: usize = 50_000;
/// Up to this many they are chosen by four scale-ups, beyond it by two: the more pods there are, the less depends on chance.
const FOUR_ARRIVALS_MAX: usize = 100_000;
/// A second round counts as one part in this many of the cost of the plan, because pods wait for it, or as a mean machine of the plan where
/// that is less. Chosen from the table in docs/packing.md.
const SECOND_ROUND_SHARE: usize = 10;
/// Each pod that is left over counts as this part of what the plan costs for each pod. Without it, plans for many pods would leave over a tenth
/// of them, small ones, for which a second round costs little. Chosen from the table in docs/packing.md.
const LEFT_OVER_PERCENT: i64 = 30;
/// The shares of each node that stay free in plans with room.
const FREE_SHARES: [f64; 3] = [0.03, 0.06, 0.1];
/// The shares that stay free in plans that are chosen by two scale-ups.
const FREE_SHARES_OF_MANY: [f64; 1] = [0.06];
/// How often the best plan so far is placed anew where its pods are bound.
const REBINDINGS: usize = 3;

/// An outcome with its forecast.
struct Candidate<'w, 'a> {
    outcome: Outcome<'w, 'a>,
    rounds: Vec<Round>,
    after: RankAfter,
}

/// The rank with the mean cost of the second round and of waiting for it added, and the number of scale-ups that need one.
type RankAfter = (Rank, usize);

impl Candidate<'_, '_> {
    /// Whether no pod is left over in any scale-up.
    fn keeps_its_plan(&self) -> bool {
        self.rounds.iter().all(|round| round.left_over.is_empty())
    }
}

/// What candidates are made with.
struct Chooser<'x> {
    prepared: &'x Prepared,
    /// The question, with the pods that come after the plan at the end.
    played: WhatIf<'x>,
    /// The number of these pods.
    later_pods: usize,
    options: &'x Options,
    objective: &'x Objective,
}

impl Chooser<'_> {
    /// An outcome with its forecast. The error is the outcome, where no forecast can be made or it comes after `most`.
    fn candidate<'w, 'a>(
        &self,
        mut outcome: Outcome<'w, 'a>,
        most: Option<RankAfter>,
    ) -> Result<Candidate<'w, 'a>, Box<Outcome<'w, 'a>>> {
        let rank = self.objective.rank_before_binding(&mut outcome);
        let plan = plan(outcome.clone());
        let machines = plan.launches.len();
        let unlaunched = machines != outcome.assignment.claims.len();
        let Some(forecaster) = Forecaster::new(self.prepared, &plan, self.options).filter(|_| !unlaunched) else {
            return Err(Box::new(outcome));
        };
        let arrivals = arrivals(machines, self.attempts(&outcome)).into_iter();
        // Nothing tells when a scale-up ends, so later pods come in every other one.
        let with_later = |(at, arrivals): (usize, Arrivals)| Arrivals {
            later_pods: self.later_pods,
            later_pods_come: at % 2 == 0,
            ..arrivals
        };
        let arrivals: Vec<Arrivals> = arrivals.enumerate().map(with_later).collect();
        let after = |rounds: &[Round]| rank_after(rank, machines, rounds, arrivals.len());
        // With each further scale-up an outcome comes later, never earlier.
        let is_better = |rounds: &[Round]| most.is_none_or(|most| after(rounds) < most);
        let rounds = forecaster.rounds(&self.played, self.options, &arrivals, &is_better);
        if rounds.is_empty() || !is_better(&rounds) {
            return Err(Box::new(outcome));
        }
        Ok(Candidate {
            after: after(&rounds),
            outcome,
            rounds,
        })
    }

    /// The outcome of a candidate with its pods where they are bound, the second round included. `None` where it is no valid plan.
    fn rebound<'w, 'a>(
        &self,
        candidate: &Candidate<'w, 'a>,
        round: &Round,
        keeps_size: bool,
        stop: Stop<'_>,
    ) -> Option<Outcome<'w, 'a>> {
        let problem = candidate.outcome.assignment.problem;
        let mut bound: Vec<(PodId, BoundPlace)> = Vec::with_capacity(problem.pods.len());
        for (pod, place) in &round.bound {
            let place = match *place {
                // Every claim is launched, in the order of the claims.
                BindingPlace::Launch(launch) => BoundPlace::Claim(ClaimId::new(launch)),
                BindingPlace::Node(index) => BoundPlace::Target(problem.targets.of_node(index)?),
            };
            bound.push((*pod, place));
        }
        for (at, (_, pods)) in round.more.iter().enumerate() {
            bound.extend(pods.iter().map(|pod| (*pod, BoundPlace::SecondRound(at))));
        }
        let templates: Vec<TemplateId> = round.more.iter().map(|(template, _)| *template).collect();
        let mut outcome = rebind(&candidate.outcome, &bound, &templates, keeps_size, stop);
        let valid = outcome.assignment.narrow_to_limits()
            && outcome.unattempted.is_empty()
            && !self.objective.launches_as_upstream(&outcome);
        valid.then_some(outcome)
    }

    /// Pods times nodes: what a forecast with all machines at once takes.
    fn attempts(&self, outcome: &Outcome<'_, '_>) -> usize {
        let nodes = outcome.assignment.problem.targets.len() + outcome.assignment.claims.len();
        nodes.saturating_mul(self.played.pods.len())
    }

    /// The number of plans to forecast, none where no second one can be.
    fn forecasts_max(&self, outcome: &Outcome<'_, '_>) -> usize {
        let affordable = ATTEMPTS_MAX / self.attempts(outcome).max(1);
        if affordable < 2 || outcome.assignment.claims.is_empty() {
            0
        } else {
            affordable.min(FORECASTS_MAX)
        }
    }
}

/// The rank of an outcome of which these rounds of so many scale-ups are known.
fn rank_after(rank: Rank, machines: usize, rounds: &[Round], of: usize) -> RankAfter {
    let more = rounds.iter().map(|round| round.more_cost.pico() / of as i64);
    let lost = rounds.iter().map(|round| round.without_place).max().unwrap_or(0);
    let placed = std::cmp::Reverse(rank.0.0.saturating_sub(lost as u64));
    let again = rounds.iter().filter(|round| !round.left_over.is_empty()).count();
    let second_rounds = rank.2.pico() / SECOND_ROUND_SHARE.max(machines) as i64 * again as i64 / of as i64;
    let left_over: usize = rounds.iter().map(|round| round.left_over.len()).sum();
    let per_pod = rank.2.pico() / (rank.0.0.max(1) as i64 * of as i64);
    let waiting = second_rounds.saturating_add(per_pod / 100 * LEFT_OVER_PERCENT * left_over as i64);
    let cost = rank.2 + Price::from_pico(more.sum::<i64>().saturating_add(waiting));
    ((placed, rank.1, cost), again)
}

/// The scale-ups that plans are chosen by: machines that are ready at once, within seconds as with KWOK, and within half a minute
/// as with EC2, while kube-scheduler binds 200 or 500 pods a second.
fn arrivals(machines: usize, attempts: usize) -> Vec<Arrivals> {
    let soon = |attempt, seed| Arrivals::within(machines, (2_500, 7_500), 2_500, attempt, seed);
    let late = |seed| Arrivals::within(machines, (30_000, 50_000), 10_000, 5, seed);
    if attempts > FOUR_ARRIVALS_MAX {
        return vec![soon(5, 1), late(3)];
    }
    let mut arrivals = vec![Arrivals::at_once(machines), soon(5, 1), soon(2, 2), late(3)];
    if attempts <= EIGHT_ARRIVALS_MAX {
        arrivals.extend([soon(5, 4), soon(2, 5), late(6), Arrivals::shuffled(machines, 1, 7)]);
    }
    arrivals
}

/// The best candidate so far, and what may still replace it.
struct Search<'x, 'w, 'a> {
    chooser: Chooser<'x>,
    chosen: Candidate<'w, 'a>,
    /// The rank of the plan that costs least as planned.
    first: Rank,
    forecasts: usize,
    /// The ranks and numbers of launches of the outcomes with a forecast. Different ways often lead to the same plan.
    known: Vec<(Rank, usize)>,
    forecasts_max: usize,
    stop: Stop<'x>,
}

impl<'w, 'a> Search<'_, 'w, 'a> {
    /// Whether no other plan needs to be looked at: one that leaves no pod over in any scale-up is not compared with dearer ones.
    fn is_over(&self) -> bool {
        self.chosen.keeps_its_plan() || self.forecasts >= self.forecasts_max || (self.stop)()
    }

    /// Chooses an outcome if it costs less after the second round. One that places fewer pods than the first, or is much dearer than the greedy's,
    /// is no alternative.
    fn consider(&mut self, mut outcome: Outcome<'w, 'a>) {
        let objective = self.chooser.objective;
        let rank = objective.rank_before_binding(&mut outcome);
        let is_alternative =
            rank.0 <= self.first.0 && rank.1 <= self.first.1 && !objective.launches_as_upstream(&outcome);
        if !is_alternative || (rank, 0) >= self.chosen.after {
            return;
        }
        let key = (rank, outcome.assignment.claims.len());
        if self.known.contains(&key) {
            return;
        }
        self.known.push(key);
        self.forecasts += 1;
        if let Ok(better) = self.chooser.candidate(outcome, Some(self.chosen.after)) {
            self.chosen = better;
        }
    }

    /// The same for some outcomes, until no other needs to be looked at.
    fn consider_all(&mut self, outcomes: impl IntoIterator<Item = Outcome<'w, 'a>>) {
        let mut outcomes = outcomes.into_iter();
        while !self.is_over()
            && let Some(outcome) = outcomes.next()
        {
            self.consider(outcome);
        }
    }

    /// Considers the chosen outcome with its pods where they are bound. Returns whether one is better.
    fn rebind(&mut self) -> bool {
        let before = self.chosen.after;
        if !self.is_over() {
            self.consider_all(self.rebound());
        }
        self.chosen.after < before
    }

    /// The chosen outcome with its pods where they are bound, for each scale-up.
    fn rebound(&self) -> Vec<Outcome<'w, 'a>> {
        let mut rebound = Vec::new();
        for round in &self.chosen.rounds {
            // Without a second round no node has to keep its size, so only rebindings onto smaller nodes are tried.
            let sizes: &[bool] = if round.more.is_empty() {
                &[false]
            } else {
                &[false, true]
            };
            let of_size = |keeps_size: &bool| self.chooser.rebound(&self.chosen, round, *keeps_size, self.stop);
            rebound.extend(sizes.iter().filter_map(of_size));
        }
        rebound
    }
}

/// The outcome whose plan costs least after the second round.
pub(crate) fn choose<'w, 'a>(
    prepared: &Prepared,
    what_if: &WhatIf<'a>,
    options: &Options,
    ranked: Ranked<'w, 'a>,
    stop: Stop<'_>,
) -> Outcome<'w, 'a> {
    let (mut best, others) = (ranked.best, ranked.others);
    let Some(objective) = ranked.objective else {
        return best;
    };
    let pods: Vec<Arc<Pod>>;
    let mut played = *what_if;
    if options.more_pods_coming {
        pods = [what_if.pods, &later_pods(what_if.pods)].concat();
        played.pods = &pods;
    }
    let later_pods = played.pods.len() - what_if.pods.len();
    let chooser = Chooser {
        prepared,
        played,
        later_pods,
        options,
        objective: &objective,
    };
    let forecasts_max = chooser.forecasts_max(&best);
    let many = chooser.attempts(&best) > FOUR_ARRIVALS_MAX;
    if forecasts_max == 0 || stop() {
        return best;
    }
    let first = objective.rank_before_binding(&mut best);
    let chosen = match chooser.candidate(best, None) {
        Ok(candidate) => candidate,
        Err(outcome) => return *outcome,
    };
    let machines = chosen.outcome.assignment.claims.len();
    let mut search = Search {
        chooser,
        chosen,
        first,
        forecasts: 1,
        known: vec![(first, machines)],
        forecasts_max,
        stop,
    };
    if search.is_over() {
        return search.chosen.outcome;
    }
    let base = search.chosen.outcome.clone();
    search.consider_all(equal_nodes(&base, &objective, stop));
    let shares: &[f64] = if many { &FREE_SHARES_OF_MANY } else { &FREE_SHARES };
    let roomy = shares
        .iter()
        .filter_map(|share| repack_with_room(*share, &base, &objective, stop));
    let others = others.into_iter().map(|(_, outcome)| outcome);
    search.consider_all(roomy.chain(others));
    // While pods come, rebinding would add room for pods that later ones displace: more nodes, at the same price of the whole scale-up.
    let rebindings = if later_pods == 0 { REBINDINGS } else { 0 };
    for _ in 0..rebindings {
        if !search.rebind() {
            break;
        }
    }
    search.chosen.outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::Chance;
    use crate::dense::ids::Id;
    use std::cmp::Reverse;

    /// A scale-up that leaves so many pods over.
    fn round(left_over: i64, more_cost: Price, without_place: i64) -> Round {
        Round {
            bound: Vec::new(),
            left_over: (0..left_over as usize).map(Id::new).collect(),
            more: Vec::new(),
            more_price: more_cost,
            more_cost,
            without_place: without_place as usize,
        }
    }

    /// Of plans for many pods that cost as much in the end, the one that leaves fewer over comes first.
    #[test]
    fn pods_that_are_left_over_count() {
        let (planned, more) = (Price::from_pico(20_000_000_000_000), Price::from_pico(300_000_000_000));
        let after = |left_over| rank_after((Reverse(1_000), false, planned), 60, &[round(left_over, more, 0)], 1);
        let (few, many) = (after(10).0.2, after(160).0.2);
        assert_eq!((many - few).pico(), planned.pico() * 3 / 10 * 150 / 1_000);
    }

    #[test]
    fn the_more_pods_and_nodes_the_fewer_scale_ups_are_played() {
        let played = |attempts| arrivals(10, attempts).len();
        assert_eq!([50_000, 50_001, 100_000, 100_001].map(played), [8, 4, 4, 2]);
    }

    /// A forecast may stop early only because of this.
    #[test]
    fn with_each_further_scale_up_an_outcome_comes_no_earlier() {
        let mut chance = Chance::new(1);
        let mut below = |most| chance.below(most);
        for _ in 0..1000 {
            let rank = (Reverse(20), false, Price::from_pico(1 + below(1_000_000_000_000)));
            let of = 1 + below(8) as usize;
            let mut rounds = Vec::new();
            let mut before = rank_after(rank, 5, &rounds, of);
            assert_eq!(before, (rank, 0));
            for _ in 0..of {
                let left = below(3);
                let more_cost = Price::from_pico(left * below(1_000_000_000_000));
                rounds.push(round(left, more_cost, below(1 + left)));
                let after = rank_after(rank, 5, &rounds, of);
                assert!(after >= before, "{after:?} after {before:?}");
                before = after;
            }
        }
    }
}
