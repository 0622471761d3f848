//! Whether a command that waited may still be started (DIS-153 to DIS-156, DIS-181 to DIS-189).

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::{refusals, with_consolidation};
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use crate::verify::Refusals;
use kerf_disruption::{
    Allowance, Candidate, Command, Invalid, empty, remaining_candidates, revalidate, still_candidates, still_fits,
};
use std::sync::Arc;

/// The result of the validation of a command.
#[derive(Debug)]
pub struct Validation {
    /// The nodes as they are now.
    pub sorted: Arc<SortedNodes>,
    /// What budgets allow now.
    pub allowance: Allowance,
    /// What may be started: the command as it was decided (DIS-187), or for commands of several nodes what is left of it (DIS-155, deviation at
    /// DIS-181); or why nothing may.
    pub result: Result<Command, Invalid>,
    /// Whether the plan of the result was made now.
    pub planned_anew: bool,
    /// By how much the count of failed validations grows (DIS-156, DIS-189).
    pub failed: usize,
    /// The plan checker's objections to plans that were therefore not taken. Each is a bug of the solver.
    pub refused_plans: Vec<String>,
}

/// Validates a command with the inputs of a later moment, as if the commands `before` it had been started.
pub fn validate(
    inputs: &Inputs<'_>,
    method: Method,
    command: &Command,
    before: &[Command],
    memory: &mut Memory,
) -> Validation {
    validate_with(inputs, method, command, before, memory, refusals(inputs))
}

/// [`validate`] with the plan checker to use.
fn validate_with(
    inputs: &Inputs<'_>,
    method: Method,
    command: &Command,
    before: &[Command],
    memory: &mut Memory,
    refusals: Refusals,
) -> Validation {
    let mut validation = validation(
        inputs,
        method,
        before,
        memory,
        |inputs, sorted, mut allowance, memory| {
            match method {
                Method::Emptiness => {
                    let (eligible, _) = empty(&sorted.candidates.free);
                    let nominated = |name: &str| inputs.is_nominated(name);
                    let rest = revalidate(command, &eligible, &nominated, &mut allowance);
                    Judged::as_planned(rest.command.ok_or(Invalid::NoLongerEmpty), rest.failed)
                }
                // They start at once.
                Method::StaticDrift | Method::Drift => Judged::as_planned(Ok(command.clone()), 0),
                Method::SingleNodeConsolidation => {
                    let stands = still_stands(inputs, sorted, command, &mut allowance, memory, &refusals);
                    Judged::whole(command, stands)
                }
                Method::MultiNodeConsolidation => {
                    let stands = still_stands(inputs, sorted, command, &mut allowance.clone(), memory, &refusals);
                    let Err(invalid) = stands else {
                        return Judged::as_planned(Ok(command.clone()), 0);
                    };
                    match remaining_command(inputs, sorted, command, &mut allowance, memory, &refusals) {
                        Some(left) => Judged::reduced(command, left, &invalid),
                        None => Judged::whole(command, Err(invalid)),
                    }
                }
            }
        },
    );
    validation.refused_plans = refusals.into_texts();
    validation
}

/// Checks once more, without a simulation, whether a consolidation command's nodes may go: a pod may have been bound while the simulation of
/// [`validate`] ran (DIS-186).
pub fn revalidate_candidates(
    inputs: &Inputs<'_>,
    method: Method,
    command: &Command,
    before: &[Command],
    memory: &mut Memory,
) -> Validation {
    validation(inputs, method, before, memory, |inputs, sorted, mut allowance, _| {
        let current = candidates_again(inputs, sorted, command, &mut allowance);
        Judged::whole(command, current.map(|_| ()))
    })
}

/// The part of a [`Validation`] that depends on the method.
struct Judged {
    result: Result<Command, Invalid>,
    planned_anew: bool,
    failed: usize,
}

impl Judged {
    fn as_planned(result: Result<Command, Invalid>, failed: usize) -> Self {
        Self {
            result,
            planned_anew: false,
            failed,
        }
    }

    /// The whole command, or none of it.
    fn whole(command: &Command, result: Result<(), Invalid>) -> Self {
        let of_all = |invalid: &Invalid| invalid.failed(command.candidates.len());
        let failed = result.as_ref().err().map_or(0, of_all);
        Self::as_planned(result.map(|()| command.clone()), failed)
    }

    /// A part of the command.
    fn reduced(command: &Command, left: Command, invalid: &Invalid) -> Self {
        let gone = command.candidates.len().saturating_sub(left.candidates.len());
        Self {
            result: Ok(left),
            planned_anew: true,
            failed: invalid.failed(gone),
        }
    }
}

/// A validation as `judge` decides it.
fn validation(
    inputs: &Inputs<'_>,
    method: Method,
    before: &[Command],
    memory: &mut Memory,
    judge: impl FnOnce(&Inputs<'_>, &SortedNodes, Allowance, &Memory) -> Judged,
) -> Validation {
    let after = AfterCommands::of(inputs, before);
    let inputs = &after.view(inputs);
    let sorted = memory.candidates.sort(inputs, method.class());
    let allowance = Allowance::new(inputs.snapshot, method.reason(), inputs.now);
    let judged = judge(inputs, &sorted, allowance.clone(), memory);
    Validation {
        sorted,
        allowance,
        result: judged.result,
        planned_anew: judged.planned_anew,
        failed: judged.failed,
        refused_plans: Vec::new(),
    }
}

/// Whether all of a consolidation command's nodes may still go, and their pods still have the places that were planned for them.
fn still_stands(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    command: &Command,
    allowance: &mut Allowance,
    memory: &Memory,
    refusals: &Refusals,
) -> Result<(), Invalid> {
    let current = candidates_again(inputs, sorted, command, allowance)?;
    fits(inputs, command, &current, memory, refusals)
}

/// The command's nodes as they are now, if consolidation may still choose all of them.
fn candidates_again(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    command: &Command,
    allowance: &mut Allowance,
) -> Result<Vec<Candidate>, Invalid> {
    let (eligible, _) = sorted.underutilized();
    still_candidates(command, eligible, &|name| inputs.is_nominated(name), allowance)
}

/// The best command for several of a command's nodes, if the command as a whole may not be started (deviation at DIS-181). Its nodes have waited
/// as long.
fn remaining_command(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    command: &Command,
    allowance: &mut Allowance,
    memory: &Memory,
    refusals: &Refusals,
) -> Option<Command> {
    let (eligible, _) = sorted.underutilized();
    let left = remaining_candidates(command, eligible, &|name| inputs.is_nominated(name));
    let (all, closed) = (&sorted.candidates.free, inputs.closed());
    let found = with_consolidation(inputs, &memory.prepared, all, closed, refusals, |consolidation| {
        consolidation.multi(&left, allowance, &|| false).command
    });
    found.ok().flatten()
}

/// Whether the pods of the command's nodes still have the places that were planned for them.
fn fits(
    inputs: &Inputs<'_>,
    command: &Command,
    current: &[Candidate],
    memory: &Memory,
    refusals: &Refusals,
) -> Result<(), Invalid> {
    let fits = with_consolidation(inputs, &memory.prepared, &[], inputs.closed(), refusals, |all| {
        still_fits(command, current, all.what_if)
    });
    fits.unwrap_or_else(|error| Err(Invalid::NoSimulation(error)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disrupt::disrupt;
    use crate::inputs::Settings;
    use jiff::SignedDuration;
    use kerf_model::in_flight::InFlight;
    use kerf_model::snapshot::Snapshot;
    use kerf_testkit::disruption::{Cluster, budget, now, sized};

    #[test]
    fn objections_to_what_is_left_of_a_command_are_reported() {
        let mut cluster = Cluster::new();
        cluster.typed("a", &[("small", 2000, 0.1), ("large", 4000, 0.2)], |pool| {
            pool.disruption.budgets = vec![budget("100%")];
        });
        for node in ["a-1", "a-2", "a-3", "a-4"] {
            cluster.of_kind(node, "small", |_| {});
            cluster.bound(node, &format!("web-{node}"), sized(300));
        }
        let snapshot = Arc::new(cluster.snapshot);
        let (in_flight, settings) = (InFlight::default(), Settings::default());
        let inputs = |snapshot| Inputs {
            snapshot,
            in_flight: &in_flight,
            settings: &settings,
            now: now(),
        };
        let method = Method::MultiNodeConsolidation;
        let round = disrupt(&inputs(&snapshot), method, &mut Memory::default(), &());
        let command = round.commands().next().expect("a command");
        let mut later = Snapshot::clone(&snapshot);
        let nominated = command.candidates[1].index;
        Arc::make_mut(&mut later.nodes[nominated]).nominated_until = Some(now() + SignedDuration::from_secs(20));
        let later = Arc::new(later);
        let inputs = inputs(&later);
        let validated = |refusals| validate_with(&inputs, method, command, &[], &mut Memory::default(), refusals);
        let fine = validated(refusals(&inputs));
        assert!(fine.planned_anew && fine.refused_plans.is_empty(), "{:?}", fine.result);
        let failing = Refusals::by(refusals(&inputs).options().clone(), |_, _, _, _| {
            vec!["one".to_owned(), "two".to_owned()]
        });
        let refused = validated(failing);
        assert_eq!(refused.result.err(), Some(Invalid::Nominated));
        assert!(!refused.refused_plans.is_empty());
        assert!(
            refused.refused_plans.iter().all(|text| text == "one; two"),
            "{:?}",
            refused.refused_plans
        );
    }
}
