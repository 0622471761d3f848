//! What holds of whole rounds of disruption, on random clusters with drift, spot nodes and every policy.
//!
//! `KERF_PROPERTY_CASES` and its like work as for the scheduler's properties. The text of a case is the seed of its cluster.

#![expect(clippy::unwrap_used, reason = "the texts are written here")]

use crate::case::{Case, drifted};
use kerf_check::{CheckOptions, verify};
use kerf_decide::{Memory, Method, Round, Settings};
use kerf_disruption::{Candidate, Command};
use kerf_model::budget::DisruptionReason;
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::plan::Plan;
use kerf_model::pod::{AffinityTerm, NamespaceScope, Pod, PodShape};
use kerf_model::price::Price;
use kerf_model::selector::{LabelSelector, Match};
use kerf_model::snapshot::Snapshot;
use kerf_testkit::disruption::{Cluster, ago, budget, now, set_label, sized};
use kerf_testkit::draw::Draw;
use kerf_testkit::random_clusters::{
    TYPES, all_have_a_place, budgets_are_kept, cluster, pods_may_go, savings_are_real,
};
use kerf_testkit::seeds::hold;
use kerf_units::policy::{CommandsPerPass, Destinations, Packing, Replacements};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Dollars per hour that a command must save for each pod it moves.
const SAVINGS: [&str; 3] = ["0", "0.002", "0.02"];
const MIN_SAVINGS: [&str; 3] = ["0", "10", "40"];

/// A node of the spot market, or one that drifted, was nominated or is not consolidatable yet.
fn change_node(draw: &mut Draw, cluster: &mut Cluster, name: &str, may_drift: bool) {
    let (is_spot, kind) = (draw.below(3) == 0, draw.below(8));
    cluster.change(name, |node| {
        if is_spot {
            set_label(node, sym::CAPACITY_TYPE, sym::SPOT);
            node.price = node.price.map(|price| Price::from_pico(price.pico() / 2));
        }
        match kind {
            0 | 1 if may_drift => drifted(node),
            2 => node.nominated_until = Some(ago(-20)),
            3 => node.lifecycle.consolidatable = false,
            _ => {}
        }
    });
}

/// Keeps a pod away from its like, so that no two of their nodes go for one.
fn lonely(pod: &mut Pod) {
    pod.labels = Arc::new([("app", "lonely")].into_iter().collect());
    let mut shape = PodShape::clone(&pod.shape);
    shape.anti_affinity.push(AffinityTerm {
        key: sym::HOSTNAME,
        selector: LabelSelector::all([Match::any_of("app", [Arc::from("lonely")])]),
        namespaces: NamespaceScope {
            names: vec!["ns".into()],
            selector: None,
        },
    });
    pod.shape = Arc::new(shape);
}

/// The cluster of a seed with a third pool, and settings drawn from the seed, too.
fn case(seed: u64) -> Case {
    let mut draw = Draw::new(seed.rotate_left(17));
    let mut cluster = cluster(seed);
    let budgets = vec![budget(draw.pick(&["0", "2", "100%", "100%"]))];
    let dearer: Vec<_> = TYPES
        .iter()
        .map(|(name, cpu, price)| (*name, *cpu, price * 1.1))
        .collect();
    cluster.typed("c", &dearer, |pool| {
        pool.disruption.budgets = budgets;
        pool.weight = 10;
    });
    // A round that replaces drifted nodes consolidates none.
    let may_drift = draw.below(3) == 0;
    for number in 0..draw.below(5) {
        let name = format!("c-{number}");
        cluster.of_kind(&name, "large", |_| {});
        cluster.bound(&name, &format!("{name}-0"), |pod| {
            sized(draw.pick(&[1900, 3500, 3800]))(pod);
            lonely(pod);
        });
    }
    // Only the nodes of pool c may go then.
    if draw.below(3) == 0 {
        for pool in cluster.snapshot.pools.iter_mut().filter(|pool| *pool.name != *"c") {
            Arc::make_mut(pool).disruption.budgets = vec![budget("0")];
        }
    }
    let names: Vec<Arc<str>> = cluster
        .snapshot
        .nodes
        .iter()
        .map(|node| Arc::clone(&node.name))
        .collect();
    for name in names {
        change_node(&mut draw, &mut cluster, &name, may_drift);
    }
    if draw.below(2) == 0 {
        cluster.snapshot.pending.clear();
    }
    let mut case = Case::of(cluster);
    case.settings = Settings {
        spot_to_spot: draw.below(2) == 0,
        savings_per_pod: draw.pick(&SAVINGS).parse().unwrap(),
        replacements: draw.pick(&[Replacements::One, Replacements::Several]),
        commands_per_pass: draw.pick(&[CommandsPerPass::One, CommandsPerPass::Independent]),
        destinations: draw.pick(&[Destinations::Settled, Destinations::Any]),
        ..Settings::default()
    };
    case.settings.solver.packing = draw.pick(&[Packing::Balanced, Packing::Cheapest, Packing::Upstream]);
    case.settings.min_savings = draw.pick(&MIN_SAVINGS).parse().unwrap();
    case
}

fn names(candidates: &[Candidate]) -> impl Iterator<Item = &str> {
    candidates.iter().map(|candidate| &*candidate.node.name)
}

fn is_moving(command: &Command, pod: &Pod) -> bool {
    let pods = command.candidates.iter().flat_map(|candidate| &candidate.pods);
    pods.into_iter().any(|moving| moving.uid == pod.uid)
}

/// The nodes onto which a command moves pods.
fn destinations(command: &Command) -> impl Iterator<Item = &str> {
    let placements = command.plan.iter().flat_map(|plan| &plan.existing);
    let receive = placements.filter(|placed| placed.pods.iter().any(|pod| is_moving(command, pod)));
    receive.map(|placed| &*placed.node)
}

/// No node goes twice, and no node that goes or receives pods receives those of another command.
fn commands_are_independent(commands: &[&Command]) -> Result<(), String> {
    let (mut going, mut receiving) = (BTreeSet::new(), BTreeSet::new());
    for command in commands {
        let twice = names(&command.candidates).find(|name| !going.insert(*name));
        if let Some(name) = twice {
            return Err(format!("{name} goes twice"));
        }
    }
    for command in commands {
        let mut own = destinations(command).collect::<BTreeSet<_>>().into_iter();
        if let Some(name) = own.find(|name| going.contains(name) || !receiving.insert(*name)) {
            return Err(format!("{name} receives pods of two commands, or goes"));
        }
    }
    Ok(())
}

/// The cluster in which the nodes of commands are going.
fn marked<'a>(snapshot: &Snapshot, candidates: impl IntoIterator<Item = &'a Candidate>) -> Snapshot {
    let mut after = snapshot.clone();
    for candidate in candidates {
        Arc::make_mut(&mut after.nodes[candidate.index]).marked_for_deletion = true;
    }
    after
}

/// The plan checker accepts what all commands do together. Pods that wait would be in the plan of each command, so they are left out.
fn the_checker_accepts(snapshot: &Snapshot, commands: &[&Command]) -> Result<(), String> {
    let candidates = || commands.iter().flat_map(|command| &command.candidates);
    let mut together = Plan::default();
    for plan in commands.iter().filter_map(|command| command.plan.as_ref()) {
        together.launches.extend(plan.launches.iter().cloned());
        together.existing.extend(plan.existing.iter().cloned());
    }
    let pods: Vec<Arc<Pod>> = candidates()
        .flat_map(|candidate| candidate.pods.iter().cloned())
        .collect();
    let options = CheckOptions {
        reserved_capacity: false,
        ..CheckOptions::default()
    };
    let found = verify(&marked(snapshot, candidates()), &pods, &together, &options);
    match &*found {
        [] => Ok(()),
        found => Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    }
}

/// Nodes that wait for pods stay, and those that are not consolidatable are not consolidated.
fn node_may_go(node: &Node, reason: DisruptionReason) -> Result<(), String> {
    if node.nominated_until.is_some_and(|until| now() < until) {
        return Err(format!("{} is nominated", node.name));
    }
    if reason != DisruptionReason::Drifted && !node.lifecycle.consolidatable {
        return Err(format!("{} is not consolidatable", node.name));
    }
    if reason == DisruptionReason::Drifted && node.lifecycle.drifted.is_none() {
        return Err(format!("{} has not drifted", node.name));
    }
    Ok(())
}

fn command_is_sound(case: &Case, command: &Command) -> Result<(), String> {
    for candidate in &command.candidates {
        pods_may_go(&case.snapshot, &candidate.node)?;
        node_may_go(&candidate.node, command.reason)?;
    }
    all_have_a_place(command)?;
    if command.reason != DisruptionReason::Underutilized {
        return Ok(());
    }
    savings_are_real(&case.snapshot, command)?;
    let pods: usize = command.candidates.iter().map(|candidate| candidate.pods.len()).sum();
    let required = case.settings.savings_per_pod.pico() * pods as i64;
    if command.savings() < Price::from_pico(required) {
        return Err("it saves too little for its pods".to_owned());
    }
    let part = case.settings.min_savings.of(command.price_before().pico());
    // Nodes that go without a replacement save what they cost besides their price.
    let fewer = command.candidates.len().saturating_sub(command.replacements.len()) as i64;
    let required = part - case.settings.solver.node_overhead.pico() * fewer;
    if !command.replacements.is_empty() && command.savings() < Price::from_pico(required) {
        return Err("its replacements save too little of the price".to_owned());
    }
    if case.settings.replacements == Replacements::One && command.replacements.len() > 1 {
        return Err("it has several replacements".to_owned());
    }
    Ok(())
}

fn round_is_sound(case: &Case, round: &Round) -> Result<(), String> {
    let commands: Vec<&Command> = round.commands().collect();
    for command in &commands {
        command_is_sound(case, command).map_err(|why| format!("{}: {why}", command.short()))?;
    }
    let consolidations = commands
        .iter()
        .filter(|command| command.reason == DisruptionReason::Underutilized);
    if case.settings.commands_per_pass == CommandsPerPass::One && consolidations.count() > 1 {
        return Err("several commands consolidate".to_owned());
    }
    let refused = round
        .evaluations
        .iter()
        .flat_map(|evaluation| &evaluation.refused_plans);
    if let Some(refused) = refused.into_iter().next() {
        return Err(format!("the solver made a plan that was refused: {refused}"));
    }
    budgets_are_kept(&case.snapshot, &commands)?;
    commands_are_independent(&commands)?;
    if case.snapshot.pending.is_empty() {
        the_checker_accepts(&case.snapshot, &commands)?;
    }
    Ok(())
}

fn every_round_is_sound(seed: &str) -> Result<(), String> {
    let case = case(seed.parse().unwrap());
    round_is_sound(&case, &case.round(Method::ORDER[0], &mut Memory::default()))
}

// DIS-041, DIS-087, DIS-132, DIS-162
#[test]
fn rounds_keep_budgets_and_protections_and_save_what_they_say() {
    hold(10, |draw| draw.next().to_string(), every_round_is_sound);
}

/// The property would hold if there were no commands.
#[test]
fn random_rounds_have_commands_of_every_kind() {
    let mut kinds: BTreeMap<String, usize> = BTreeMap::new();
    for seed in 0..600 {
        let case = case(seed);
        let round = case.round(Method::ORDER[0], &mut Memory::default());
        let commands: Vec<&Command> = round.commands().collect();
        for command in &commands {
            let kind = format!("{} {}", command.reason.as_str(), command.decision().as_str());
            *kinds.entry(kind).or_default() += 1;
            let of_spot = |candidate: &Candidate| candidate.node.label(sym::CAPACITY_TYPE) == Some(sym::SPOT);
            if command.candidates.iter().any(of_spot) {
                *kinds.entry("of spot nodes".to_owned()).or_default() += 1;
            }
        }
        let consolidations = commands
            .iter()
            .filter(|command| command.reason == DisruptionReason::Underutilized);
        if consolidations.count() > 1 {
            *kinds.entry("several consolidations".to_owned()).or_default() += 1;
        }
    }
    for kind in [
        "Empty delete",
        "Drifted delete",
        "Drifted replace",
        "Underutilized delete",
        "Underutilized replace",
        "of spot nodes",
        "several consolidations",
    ] {
        assert!(kinds.contains_key(kind), "{kinds:?}");
    }
}
