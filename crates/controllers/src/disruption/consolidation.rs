//! Consolidation's turns: nodes that go together, and nodes that go alone (section 8 of the disruption contract). What the search found is
//! counted and told here; the search itself is `kerf-disruption`'s.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kerf_disruption::{
    Balance, Candidate, Class, Command, Consolidation, Decision, DestinationRule, Invalid, Judgement, Multi, Settings,
    SimulationError, Single, Stay, Staying, WhatIf, consolidation_options, dollars, interleaved, still_candidates,
    still_fits,
};
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_runtime::ReconcileError;
use kerf_runtime::metrics::catalogue;
use kerf_runtime::options::Destinations;
use kerf_scheduler::Options;
use tokio::time::Instant;

use super::events;
use super::memory::{Basis, is_settled};
use super::methods::{Decided, Method, Turn, WAIT};
use super::sorting::Sorted;
use crate::context::Context;
use crate::index::Index;
use crate::plan_check::violations;
use crate::provisioning::pass::solver_options;

/// How long consolidation may search. Drift, and looking again at a command, have no limit (DIS-314).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SearchLimits {
    /// For nodes that go together, all in all (DIS-163).
    pub multi: Duration,
    /// For nodes that go alone: the time is looked at between nodes only (DIS-176).
    pub single: Duration,
}

impl Default for SearchLimits {
    fn default() -> Self {
        Self {
            multi: Duration::from_secs(60),
            single: Duration::from_secs(180),
        }
    }
}

/// What a turn starts from.
pub(super) struct Seen {
    /// What LIF-207 counted before the snapshot was taken.
    pub(super) epoch: u64,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) sorted: Arc<Sorted>,
    pub(super) now: Timestamp,
}

/// Everything a search needs, owned, so that it can be done on another thread.
struct Search {
    snapshot: Arc<Snapshot>,
    index: Index,
    closed: Vec<usize>,
    now: Timestamp,
    solver: Options,
    settings: Settings,
}

impl Search {
    /// `all` are the candidates before any filter, for the totals of pools.
    fn run<T>(&self, all: &[Candidate], look: impl FnOnce(&Consolidation<'_>) -> T) -> Result<T, SimulationError> {
        let prepared = || self.index.read(&self.snapshot, &self.solver);
        let what_if = WhatIf::reading(&self.snapshot, prepared, self.closed.clone(), self.now, &self.solver)?;
        let balance = Balance::new(&self.snapshot, all);
        let checker = |snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan| check(snapshot, pods, plan, &self.solver);
        Ok(look(&Consolidation {
            what_if: &what_if,
            balance: &balance,
            settings: self.settings,
            checker: &checker,
        }))
    }
}

/// A command is taken only if the plan checker finds nothing wrong with its plan.
fn check(snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan, solver: &Options) -> Result<(), String> {
    let found = violations(snapshot, pods, plan, solver);
    let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
    if texts.is_empty() {
        return Ok(());
    }
    let violations = texts.join("; ");
    tracing::error!(violations, "a consolidation plan breaks a rule and is not carried out");
    Err(violations)
}

/// The candidates that do not rest.
fn free_of<'a>(eligible: &'a [Candidate], resting: &BTreeSet<usize>) -> Cow<'a, [Candidate]> {
    match resting.is_empty() {
        true => Cow::Borrowed(eligible),
        false => {
            let free = eligible.iter().filter(|one| !resting.contains(&one.index));
            Cow::Owned(free.cloned().collect())
        }
    }
}

impl Turn<'_> {
    /// What consolidation wants done now, if anything (DIS-124 to DIS-126, DIS-158 to DIS-189).
    pub(super) async fn consolidate(&self, method: Method, seen: Seen) -> Result<Option<Decided>, ReconcileError> {
        let Seen {
            epoch,
            snapshot,
            sorted,
            now,
        } = seen;
        let (eligible, held) = sorted.underutilized();
        self.tell_stays(&snapshot, held);
        let resting = self.resting(&snapshot, eligible, now);
        let eligible = free_of(eligible, &resting);
        let Some(mut allowance) = self.admit(method, &snapshot, eligible.len(), now) else {
            return Ok(None);
        };
        let closed = destinations(self.context).closed(&snapshot, now);
        let uid = |candidate: &Candidate| candidate.node.lifecycle.claim_uid.clone().unwrap_or_default();
        let basis = Basis {
            epoch,
            eligible: eligible.iter().map(uid).collect(),
            closed: closed.clone(),
        };
        if self.memory.is_quiet(method, &basis) {
            return Ok(None);
        }
        let search = Search {
            snapshot: Arc::clone(&snapshot),
            index: self.context.index.clone(),
            closed,
            now,
            solver: consolidation_options(&solver_options(&self.context.options, &self.context.tuning)),
            settings: settings(self.context),
        };
        let limits = self.context.tuning.search;
        let sorted = Arc::clone(&sorted);
        let command = match method {
            Method::Multi => {
                let shutdown = self.shutdown.clone();
                let found = self
                    .context
                    .compute(move || {
                        let began = Instant::now();
                        let stop = || shutdown.is_cancelled() || began.elapsed() >= limits.multi;
                        search.run(&sorted.candidates.free, |all| {
                            all.multi(&free_of(&sorted.underutilized().0, &resting), &mut allowance, &stop)
                        })
                    })
                    .await?;
                // DIS-094: it is no search in vain, which would be remembered.
                let found = found.map_err(|error| ReconcileError::message(error.to_string()))?;
                self.note_multi(found, &snapshot, basis)
            }
            _ => {
                let first = self.memory.with(|all| all.unseen.clone());
                if !first.is_empty() {
                    tracing::debug!(
                        nodepools = first.iter().map(|pool| &**pool).collect::<Vec<_>>().join(", "),
                        "prioritizing nodepools that have not yet been considered due to timeouts in previous runs"
                    );
                }
                let survey = self.memory.with(|all| all.survey.take());
                let survey = survey.filter(|(of, closed, _)| Arc::ptr_eq(of, &snapshot) && *closed == search.closed);
                let shutdown = self.shutdown.clone();
                let found = self
                    .context
                    .compute(move || {
                        let began = Instant::now();
                        let stop = || shutdown.is_cancelled() || began.elapsed() >= limits.single;
                        let eligible = free_of(&sorted.underutilized().0, &resting);
                        let order = interleaved(&eligible, &first);
                        let known = survey.map(|(_, _, survey)| survey).unwrap_or_default();
                        search.run(&sorted.candidates.free, |all| {
                            all.single(&order, &allowance, &known, &stop)
                        })
                    })
                    .await?;
                let found = match found {
                    Ok(found) => found,
                    Err(error) => {
                        tracing::error!(%error, "computing single-node consolidation");
                        return Ok(None);
                    }
                };
                self.note_single(found, &snapshot, basis)
            }
        };
        let Some(command) = command else { return Ok(None) };
        self.validated(method, command, snapshot).await
    }

    /// The candidates whose pods rest because moving such pods did not last, by their index.
    fn resting(&self, snapshot: &Snapshot, eligible: &[Candidate], now: Timestamp) -> BTreeSet<usize> {
        let held: Vec<Staying> = {
            let mut relapses = self.context.relapses();
            relapses.look(snapshot, now);
            let resting = eligible.iter().filter_map(|candidate| {
                let why = Stay::Resting(relapses.rest(&candidate.pods, now)?);
                let index = candidate.index;
                Some(Staying { index, why })
            });
            resting.collect()
        };
        self.tell_stays(snapshot, &held);
        held.into_iter().map(|held| held.index).collect()
    }

    fn note_multi(&self, found: Multi, snapshot: &Arc<Snapshot>, basis: Basis) -> Option<Command> {
        if found.timed_out && !self.shutdown.is_cancelled() {
            self.count_timeout(Method::Multi);
            tracing::debug!(
                candidates = basis.eligible.len(),
                "the search for nodes that go together ran out of time"
            );
        }
        if let Some(judgement) = &found.judgement {
            self.tell_judgement(judgement);
            for verdict in judgement.verdicts.iter().filter(|_| found.command.is_some()) {
                let pool = snapshot.pools.iter().find(|pool| pool.name == verdict.pool);
                if let (Some(score), Some(pool)) = (&verdict.score, pool) {
                    let event = events::consolidation_approved(events::pool(pool), score.to_string());
                    self.context.recorder.publish(event);
                }
            }
        }
        let settled = is_settled(found.command.is_some(), found.constrained, found.timed_out);
        let closed = basis.closed.clone();
        self.memory.with(|all| {
            all.multi = settled.then(|| (basis, Instant::now()));
            all.survey = Some((Arc::clone(snapshot), closed, found.survey));
        });
        found.command
    }

    fn note_single(&self, found: Single, snapshot: &Snapshot, basis: Basis) -> Option<Command> {
        self.tell_stays(snapshot, &found.held);
        for judgement in &found.judgements {
            self.tell_judgement(judgement);
        }
        if found.timed_out && !self.shutdown.is_cancelled() {
            self.count_timeout(Method::Single);
            tracing::debug!(
                evaluated = found.evaluated,
                "abandoning single-node consolidation due to timeout"
            );
        }
        let settled = is_settled(found.command.is_some(), found.constrained, found.timed_out);
        self.memory.with(|all| {
            all.single = settled.then(|| (basis, Instant::now()));
            if found.command.is_none() {
                all.unseen = found.unseen;
            }
        });
        let (command, judgement) = (found.command?, found.judgements.last());
        for score in judgement.iter().flat_map(|judgement| &judgement.verdicts) {
            let Some(score) = &score.score else { continue };
            for candidate in &command.candidates {
                for object in events::objects(self.context, &candidate.node) {
                    let event = events::consolidation_approved(object, score.to_string());
                    self.context.recorder.publish(event);
                }
            }
        }
        Some(command)
    }

    fn tell_stays(&self, snapshot: &Snapshot, held: &[Staying]) {
        let told = held.iter().filter(|held| held.why.is_event());
        for held in told {
            self.tell(snapshot, held.index, || held.why.message(), events::unconsolidatable);
        }
    }

    fn count_timeout(&self, method: Method) {
        let timeouts = self
            .context
            .metrics
            .counter(&catalogue::DISRUPTION_CONSOLIDATION_TIMEOUTS);
        timeouts.inc(&[method.consolidation_type()]);
    }

    /// DIS-210 to DIS-214.
    fn tell_judgement(&self, judgement: &Judgement) {
        let metrics = &self.context.metrics;
        let (moves, scores) = (
            metrics.counter(&catalogue::CONSOLIDATION_MOVES),
            metrics.histogram(&catalogue::CONSOLIDATION_SCORE),
        );
        let word = |approved| if approved { "approved" } else { "rejected" };
        for verdict in &judgement.verdicts {
            let policy = verdict.policy.as_str();
            moves.inc(&[word(judgement.approved()), &verdict.pool, policy]);
            let Some(score) = &verdict.score else { continue };
            scores.observe(&[word(score.approved), &verdict.pool, policy], score.value);
            tracing::debug!(
                nodepool = &*verdict.pool,
                score = score.value,
                savings_fraction = score.savings_fraction(),
                disruption_fraction = score.disruption_fraction(),
                savings = score.savings.per_hour(),
                disruption_cost = score.disruption.as_pods(),
                nodepool_total_cost = score.totals.price.per_hour(),
                nodepool_total_disruption_cost = score.totals.disruption.as_pods(),
                threshold = 1.0 / f64::from(kerf_disruption::K),
                k = kerf_disruption::K,
                approved = score.approved,
                decision = judgement.decision.as_str(),
                candidates = judgement.candidates,
                "consolidation score"
            );
        }
    }

    /// Waits, and looks at the command again (DIS-127, DIS-181 to DIS-189). What proceeds is the command as it was decided (DIS-187).
    async fn validated(
        &self,
        method: Method,
        command: Command,
        decided_on: Arc<Snapshot>,
    ) -> Result<Option<Decided>, ReconcileError> {
        // DIS-142
        if command.decision() == Decision::Replace {
            self.tell_command(&command, |text| {
                format!(
                    "Consolidation candidate: {text} (savings: {})",
                    dollars(command.savings())
                )
            });
        }
        tokio::select! {
            biased;
            () = self.shutdown.cancelled() => return Ok(None),
            () = tokio::time::sleep(WAIT) => {}
        }
        match self.look_again(method, &command).await? {
            Ok(snapshot) => Ok(Some(Decided {
                decided_on,
                ..Decided::new(command, snapshot)
            })),
            Err(invalid) => {
                let failed = invalid.failed(command.candidates.len());
                let counter = self.context.metrics.counter(&catalogue::DISRUPTION_FAILED_VALIDATIONS);
                counter.add(&[method.consolidation_type()], failed as f64);
                let short = command.short();
                tracing::debug!(command = %short, reason = %invalid, "abandoning consolidation attempt, command is no longer valid");
                self.reject(&command, &invalid);
                Ok(None)
            }
        }
    }

    fn reject(&self, command: &Command, invalid: &Invalid) {
        let savings = dollars(command.savings());
        for candidate in &command.candidates {
            let (text, reason) = (command.of_node(&candidate.node.name), invalid.reason());
            let message = format!("Consolidation rejected: {text}, reason: {reason} (savings: {savings})");
            for object in events::objects(self.context, &candidate.node) {
                let event = events::consolidation_rejected(object, message.clone(), &text, reason);
                self.context.recorder.publish(event);
            }
        }
    }

    fn tell_command(&self, command: &Command, message: impl Fn(&str) -> String) {
        for candidate in &command.candidates {
            let text = command.of_node(&candidate.node.name);
            for object in events::objects(self.context, &candidate.node) {
                let event = events::consolidation_candidate(object, message(&text), &text);
                self.context.recorder.publish(event);
            }
        }
    }

    /// The cluster as it is now, if the command still stands in it.
    async fn look_again(
        &self,
        method: Method,
        command: &Command,
    ) -> Result<Result<Arc<Snapshot>, Invalid>, ReconcileError> {
        let check = || self.still_there(method, command);
        let simulate = |(snapshot, current)| self.fits(command, snapshot, current);
        let stands = around(check, simulate).await?;
        Ok(stands.map(|(snapshot, _)| snapshot))
    }

    /// Whether the pods of a command's nodes still have the places that were planned for them.
    async fn fits(
        &self,
        command: &Command,
        snapshot: Arc<Snapshot>,
        current: Vec<Candidate>,
    ) -> Result<Result<(), Invalid>, ReconcileError> {
        let now = self.context.now();
        let search = Search {
            closed: destinations(self.context).closed(&snapshot, now),
            snapshot,
            index: self.context.index.clone(),
            now,
            solver: consolidation_options(&solver_options(&self.context.options, &self.context.tuning)),
            settings: settings(self.context),
        };
        let again = command.clone();
        let work = move || search.run(&[], |all| still_fits(&again, &current, all.what_if));
        let fits = self.context.compute(work).await?;
        Ok(fits.unwrap_or_else(|error| Err(Invalid::NoSimulation(error))))
    }

    fn still_there(&self, method: Method, command: &Command) -> Result<(Arc<Snapshot>, Vec<Candidate>), Invalid> {
        let now = self.context.now();
        let snapshot = self.context.cluster.snapshot(now);
        let sorted = self.memory.sorting.sort(&snapshot, Class::Graceful, self.registry, now);
        let (eligible, _) = sorted.underutilized();
        let mut allowance = self.allowance(&snapshot, method, now);
        let nominated = |name: &str| {
            let until = snapshot.node(name).and_then(|node| node.nominated_until);
            until.is_some_and(|until| now < until)
        };
        let current = still_candidates(command, eligible, &nominated, &mut allowance)?;
        Ok((snapshot, current))
    }
}

/// Checks, simulates, and checks again: a pod may have come while the simulation ran (DIS-186).
async fn around<T, F>(
    check: impl Fn() -> Result<T, Invalid>,
    simulate: impl FnOnce(T) -> F,
) -> Result<Result<T, Invalid>, ReconcileError>
where
    F: Future<Output = Result<Result<(), Invalid>, ReconcileError>>,
{
    let before = match check() {
        Ok(before) => before,
        Err(invalid) => return Ok(Err(invalid)),
    };
    Ok(simulate(before).await?.and_then(|()| check()))
}

/// Where consolidation may move pods.
pub(super) fn destinations(context: &Context) -> DestinationRule {
    match context.options.consolidation_destinations {
        Destinations::Settled => DestinationRule::Settled,
        Destinations::Any => DestinationRule::Any,
    }
}

/// What consolidation may do with the process's options.
pub(super) fn settings(context: &Context) -> Settings {
    Settings {
        spot_to_spot: context.options.feature_gates.spot_to_spot_consolidation,
        threads: solver_options(&context.options, &context.tuning).threads,
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // DIS-186
    #[tokio::test]
    async fn what_comes_while_the_simulation_runs_is_seen() {
        let pods = std::cell::Cell::new(0);
        let check = || {
            if pods.get() == 0 {
                Ok("as decided")
            } else {
                Err(Invalid::Churn(1))
            }
        };
        let quiet = around(check, |_| async { Ok(Ok(())) }).await;
        assert_eq!(quiet.expect("no error"), Ok("as decided"));
        let bound = around(check, |_| async {
            pods.set(1);
            Ok(Ok(()))
        });
        assert_eq!(bound.await.expect("no error"), Err(Invalid::Churn(1)));
        pods.set(0);
        let unplaced = around(check, |_| async { Ok(Err(Invalid::Changed)) }).await;
        assert_eq!(unplaced.expect("no error"), Err(Invalid::Changed));
    }
}
