//! Whether a command that waited may still be started (DIS-153 to DIS-156, DIS-181 to DIS-189).

use crate::after_commands::AfterCommands;
use crate::candidate_cache::SortedNodes;
use crate::consolidate::with_consolidation;
use crate::inputs::Inputs;
use crate::memory::Memory;
use crate::method::Method;
use kerf_disruption::{Allowance, Candidate, Command, Invalid, empty, revalidate, still_candidates, still_fits};
use std::sync::Arc;

/// What looking at a command again came to.
#[derive(Debug)]
pub struct Validation {
    /// The nodes as they are now.
    pub sorted: Arc<SortedNodes>,
    /// What budgets allow now.
    pub allowance: Allowance,
    /// What may be started: the command as it was decided (DIS-187), or for emptiness what is left of it (DIS-155); or why nothing may.
    pub result: Result<Command, Invalid>,
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
                    (rest.command.ok_or(Invalid::NoLongerEmpty), rest.failed)
                }
                // They start at once.
                Method::StaticDrift | Method::Drift => (Ok(command.clone()), 0),
                Method::MultiNodeConsolidation | Method::SingleNodeConsolidation => {
                    let current = candidates_again(inputs, sorted, command, &mut allowance);
                    let fits = current.and_then(|current| fits(inputs, command, &current, memory));
                    with_count(command, fits)
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
        with_count(command, current.map(|_| ()))
    })
}

/// What may be started, or why nothing may; and by how much the count of failed validations grows.
type Judged = (Result<Command, Invalid>, usize);

fn with_count(command: &Command, result: Result<(), Invalid>) -> Judged {
    let failed = result
        .as_ref()
        .err()
        .map_or(0, |invalid| invalid.failed(command.candidates.len()));
    (result.map(|()| command.clone()), failed)
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
    let (result, failed) = judge(inputs, &sorted, allowance.clone(), memory);
    Validation {
        sorted,
        allowance,
        result,
        failed,
    }
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

/// Whether the pods of the command's nodes still have the places that were planned for them.
fn fits(inputs: &Inputs<'_>, command: &Command, current: &[Candidate], memory: &Memory) -> Result<(), Invalid> {
    let mut refused = Vec::new();
    let fits = with_consolidation(inputs, &memory.prepared, &[], inputs.closed(), &mut refused, |all| {
        still_fits(command, current, all.what_if)
    });
    fits.unwrap_or_else(|error| Err(Invalid::NoSimulation(error)))
}
