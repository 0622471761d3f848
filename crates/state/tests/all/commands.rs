//! What is left of a disruption command that ended.

use crate::fixture::{mirror, now};
use kerf_model::budget::DisruptionReason;
use kerf_model::in_flight::Destinations;
use kerf_state::{CommandInFlight, CommandNode, Mirror, Replacement};
use std::time::Duration;

/// A command that replaces one machine, and whether the replacements were initialised.
fn command(machine: &str, replacements: &[bool]) -> CommandInFlight {
    let replacement = |(at, initialized): (usize, &bool)| Replacement {
        claim: format!("new-{at}").into(),
        initialized: *initialized,
    };
    CommandInFlight {
        id: machine.into(),
        reason: DisruptionReason::Drifted,
        nodes: vec![CommandNode {
            node: Some(machine.into()),
            claim: machine.into(),
            claim_uid: machine.into(),
            provider_id: format!("cloud://{machine}").into(),
        }],
        replacements: replacements.iter().enumerate().map(replacement).collect(),
        destinations: Destinations::default(),
        started: Duration::ZERO,
    }
}

/// The machines that pause.
fn pausing(mirror: &mut Mirror) -> Vec<String> {
    let (_, in_flight) = mirror.decision_state(now());
    let ids = in_flight.failed_replacements.keys();
    ids.map(ToString::to_string).collect()
}

// DIS-247
#[test]
fn machines_pause_when_a_replacement_was_never_ready() {
    let mut mirror = mirror();
    for (machine, replacements) in [("a", vec![true]), ("b", vec![]), ("c", vec![true, false])] {
        mirror.insert_command(command(machine, &replacements));
        mirror.give_up_command(machine, now());
        assert!(mirror.command(machine).is_none());
    }
    assert_eq!(pausing(&mut mirror), ["cloud://c"]);
    mirror.insert_command(command("d", &[false]));
    mirror.note_replacement_initialized("d", "new-0");
    mirror.give_up_command("d", now());
    mirror.insert_command(command("e", &[true]));
    mirror.finish_command("e");
    mirror.give_up_command("e", now());
    assert_eq!(pausing(&mut mirror), ["cloud://c"]);
}
