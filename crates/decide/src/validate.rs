//! Whether a command that waited may still be started (DIS-153 to DIS-156, DIS-181 to DIS-189).

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::with_consolidation;
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use kerf_disruption::{
    Allowance, Candidate, Command, Invalid, empty, remaining_candidates, revalidate, still_candidates, still_fits,
};
use std::sync::Arc;

/// What looking at a command again came to.
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
}

/// Validates a command with the inputs of a later moment, as if the commands `before` it had been started.
pub fn validate(
    inputs: &Inputs<'_>,
    method: Method,
    command: &Command,
    before: &[Command],
    memory: &mut Memory,
) -> Validation {
    validation(
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
                    Judged::whole(command, still_stands(inputs, sorted, command, &mut allowance, memory))
                }
                Method::MultiNodeConsolidation => {
                    let stands = still_stands(inputs, sorted, command, &mut allowance.clone(), memory);
                    let Err(invalid) = stands else {
                        return Judged::as_planned(Ok(command.clone()), 0);
                    };
                    match remaining_command(inputs, sorted, command, &mut allowance, memory) {
                        Some(left) => Judged::reduced(command, left, &invalid),
                        None => Judged::whole(command, Err(invalid)),
                    }
                }
            }
        },
    )
}

/// Looks once more whether a consolidation command's nodes may go, without a simulation: a pod may have come while the simulation of
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

    /// All of a command may be started, or nothing.
    fn whole(command: &Command, result: Result<(), Invalid>) -> Self {
        let of_all = |invalid: &Invalid| invalid.failed(command.candidates.len());
        let failed = result.as_ref().err().map_or(0, of_all);
        Self::as_planned(result.map(|()| command.clone()), failed)
    }

    /// A command is started with fewer nodes.
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
    }
}

/// Whether all of a consolidation command's nodes may still go, and their pods still have the places that were planned for them.
fn still_stands(
    inputs: &Inputs<'_>,
    sorted: &SortedNodes,
    command: &Command,
    allowance: &mut Allowance,
    memory: &Memory,
) -> Result<(), Invalid> {
    let current = candidates_again(inputs, sorted, command, allowance)?;
    fits(inputs, command, &current, memory)
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
) -> Option<Command> {
    let (eligible, _) = sorted.underutilized();
    let left = remaining_candidates(command, eligible, &|name| inputs.is_nominated(name));
    let (all, closed) = (&sorted.candidates.free, inputs.closed());
    let found = with_consolidation(
        inputs,
        &memory.prepared,
        all,
        closed,
        &mut Vec::new(),
        |consolidation| consolidation.multi(&left, allowance, &|| false).command,
    );
    found.ok().flatten()
}

/// Whether the pods of the command's nodes still have the places that were planned for them.
fn fits(inputs: &Inputs<'_>, command: &Command, current: &[Candidate], memory: &Memory) -> Result<(), Invalid> {
    let mut refused = Vec::new();
    let fits = with_consolidation(inputs, &memory.prepared, &[], inputs.closed(), &mut refused, |all| {
        still_fits(command, current, all.what_if)
    });
    fits.unwrap_or_else(|error| Err(Invalid::NoSimulation(error)))
}
