//! What holds of every command, on random clusters.
//!
//! `KERF_PROPERTY_CASES` and its like work as for the scheduler's properties. The text of a case is the seed of its cluster.

use crate::fixture::*;
use kerf_check::{CheckOptions, verify};
use kerf_disruption::*;
use kerf_model::budget::DisruptionReason;
use kerf_model::plan::Plan;
use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;
use kerf_testkit::random_clusters::{all_have_a_place, budgets_are_kept, cluster, pods_may_go, savings_are_real};
use kerf_testkit::seeds::hold;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

fn is_sound(cluster: &Cluster, command: &Command) -> Result<(), String> {
    for candidate in &command.candidates {
        pods_may_go(&cluster.snapshot, &candidate.node)?;
    }
    budgets_are_kept(&cluster.snapshot, &[command])?;
    savings_are_real(&cluster.snapshot, command)?;
    all_have_a_place(command)
}

/// Emptiness, multi-node and single-node consolidation, each by itself.
fn commands(cluster: &Cluster, objections: &Mutex<Vec<String>>) -> Vec<Command> {
    let checker = |snapshot: &Snapshot, pods: &[Arc<Pod>], plan: &Plan| {
        let options = CheckOptions {
            reserved_capacity: false,
            ..CheckOptions::default()
        };
        let found = verify(snapshot, pods, plan, &options);
        objections.lock().unwrap().extend(found.iter().map(ToString::to_string));
        Ok(())
    };
    let free = cluster.free();
    let (eligible, _) = empty(&free);
    let mut allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Empty, now());
    let mut commands: Vec<Command> = emptiness(&eligible, &mut allowance).into_iter().collect();
    let asked = Asked::default();
    let closed = closed(asked.destinations, &cluster.snapshot, now());
    let what_if = WhatIf::new(&cluster.snapshot, closed, now(), &asked.solver).unwrap();
    let consolidation = Consolidation {
        what_if: &what_if,
        balance: &Balance::new(&cluster.snapshot, &free),
        settings: asked.settings,
        undone: &[],
        checker: &checker,
    };
    let (eligible, _) = underutilized(&cluster.snapshot, &free);
    let allowance = || Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now());
    let multi = consolidation.multi(&eligible, &mut allowance(), &|| false);
    let order = interleaved(&eligible, &BTreeSet::new());
    let single = consolidation.single(&order, &allowance(), &SingleNodeResults::default(), &|| false);
    for command in multi.command.into_iter().chain(single.command) {
        consolidation.check(&command).unwrap();
        commands.push(command);
    }
    commands
}

fn every_command_is_sound(seed: &str) -> Result<(), String> {
    let cluster = cluster(seed.parse().unwrap());
    let objections = Mutex::new(Vec::new());
    for command in commands(&cluster, &objections) {
        is_sound(&cluster, &command).map_err(|why| format!("{}: {why}", command.short()))?;
    }
    let objections = objections.into_inner().unwrap();
    if objections.is_empty() {
        Ok(())
    } else {
        Err(objections.join("\n"))
    }
}

// DIS-041, DIS-087, DIS-132
#[test]
fn commands_keep_budgets_and_save_what_they_say() {
    hold(20, |draw| draw.next().to_string(), every_command_is_sound);
}

/// The property would hold if there were no commands.
#[test]
fn random_clusters_have_commands_of_every_kind() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..200 {
        for command in commands(&cluster(seed), &Mutex::default()) {
            let kind = format!(
                "{} {} of {}",
                command.reason.as_str(),
                command.decision().as_str(),
                command.candidates.len().min(2)
            );
            *kinds.entry(kind).or_default() += 1;
        }
    }
    for kind in [
        "Empty delete of 1",
        "Underutilized delete of 1",
        "Underutilized delete of 2",
        "Underutilized replace of 1",
        "Underutilized replace of 2",
    ] {
        assert!(kinds.get(kind).is_some_and(|count| *count >= 5), "{kinds:?}");
    }
}
