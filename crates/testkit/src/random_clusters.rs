//! Random clusters for properties of disruption, and what has to hold of commands there.

use crate::disruption::{Cluster, budget};
use crate::draw::Draw;
use kerf_disruption::{Command, dollars};
use kerf_model::budget::NodeShare;
use kerf_model::instance_type::Offering;
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_model::plan::Launch;
use kerf_model::pod::{AffinityTerm, DoNotDisrupt, NamespaceScope, Pod, SpreadConstraint};
use kerf_model::price::Price;
use kerf_model::selector::{LabelSelector, Match};
use kerf_model::snapshot::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const APPS: [&str; 4] = ["p", "q", "r", "s"];
/// The types of both pools: name, milli-CPU and dollars per hour.
pub const TYPES: [(&str, i64, f64); 4] = [
    ("tiny", 1000, 0.06),
    ("small", 2000, 0.1),
    ("medium", 4000, 0.19),
    ("large", 8000, 0.36),
];

fn app(value: &str) -> LabelSelector {
    LabelSelector::all([Match::any_of("app", [Arc::from(value)])])
}

/// A pod labelled with one of the apps, now and then tied to others or protected.
fn change_pod(draw: &mut Draw, pod: &mut Pod) {
    let value = draw.pick(&APPS);
    pod.labels = Arc::new([("app", value)].into_iter().collect());
    let mut shape = (*pod.shape).clone();
    shape.requests.set(sym::CPU, draw.pick(&[100, 250, 500, 900, 1500]));
    let other = app(draw.pick(&APPS));
    let term = AffinityTerm {
        key: sym::HOSTNAME,
        selector: other.clone(),
        namespaces: NamespaceScope {
            names: vec!["ns".into()],
            selector: None,
        },
    };
    match draw.below(12) {
        0 => shape.affinity.push(term),
        1 => shape.spread.push(SpreadConstraint {
            key: sym::HOSTNAME,
            max_skew: 1 + draw.below(2) as u32,
            required: true,
            min_domains: None,
            selector: other,
            honor_node_affinity: true,
            honor_taints: false,
        }),
        _ => {}
    }
    pod.shape = Arc::new(shape);
    if draw.below(25) == 0 {
        pod.do_not_disrupt = DoNotDisrupt::Always;
    }
}

/// Two pools of four types, up to eight nodes that are mostly half empty, a few disruption budgets of both kinds.
pub fn cluster(seed: u64) -> Cluster {
    let mut draw = Draw::new(seed);
    let mut cluster = Cluster::new();
    for pool in ["a", "b"] {
        let budgets: Vec<_> = (0..draw.below(3))
            .map(|_| budget(draw.pick(&["0", "1", "2", "30%", "50%", "100%"])))
            .collect();
        cluster.typed(pool, &TYPES, |pool| pool.disruption.budgets = budgets);
    }
    for number in 0..2 + draw.below(7) {
        let name = format!("{}-{number}", draw.pick(&["a", "a", "b"]));
        let kind = draw.pick(&["small", "medium", "medium", "large"]);
        cluster.of_kind(&name, kind, |node| node.lifecycle.ready = draw.below(12) != 0);
        for pod in 0..draw.below(4) {
            cluster.bound(&name, &format!("{name}-{pod}"), |pod| change_pod(&mut draw, pod));
        }
    }
    for number in 0..draw.below(3) {
        let mut pod = cluster.pod(&format!("new-{number}"), 500);
        change_pod(&mut draw, &mut pod);
        cluster.snapshot.pending.push(Arc::new(pod));
    }
    for number in 0..draw.below(3) {
        let (selector, allowed) = (app(draw.pick(&APPS)), draw.below(2) as i32);
        cluster.pdb(&format!("pdb-{number}"), |pdb| {
            pdb.selector = selector;
            pdb.disruptions_allowed = allowed;
        });
    }
    cluster
}

fn labelled(selector: &LabelSelector, pod: &Pod) -> bool {
    APPS.iter()
        .any(|value| *selector == app(value) && pod.labels.iter().any(|label| label == ("app", *value)))
}

/// No pod that asks not to be disrupted goes, nor one whose disruption budget allows no eviction now.
pub fn pods_may_go(snapshot: &Snapshot, node: &Node) -> Result<(), String> {
    for pod in &node.pods {
        let covering: Vec<_> = snapshot
            .pdbs
            .iter()
            .filter(|pdb| labelled(&pdb.selector, pod))
            .collect();
        if pod.do_not_disrupt == DoNotDisrupt::Always {
            return Err(format!("{} must not be disrupted", pod.name));
        }
        // The eviction API refuses a pod with more than one budget.
        if covering.len() > 1 || covering.iter().any(|pdb| pdb.disruptions_allowed == 0) {
            return Err(format!("the budget of {} allows no eviction", pod.name));
        }
    }
    Ok(())
}

/// How many nodes of a pool may be away: the least of its budgets, whose shares are rounded up.
fn may_be_away(snapshot: &Snapshot, pool: &str) -> usize {
    let pool = snapshot.pools.iter().find(|known| *known.name == *pool).unwrap();
    let nodes = snapshot
        .nodes
        .iter()
        .filter(|node| node.pool == Some(pool.label))
        .count();
    let budgets = pool.disruption.budgets.iter().flatten();
    let allowed = budgets.map(|budget| match budget.nodes {
        NodeShare::Count(count) => count as usize,
        NodeShare::Percent(share) => (nodes * share as usize).div_ceil(100),
    });
    allowed.min().unwrap_or(usize::MAX)
}

/// No more nodes of a pool are away than its budgets allow once all these commands have started.
pub fn budgets_are_kept(snapshot: &Snapshot, commands: &[&Command]) -> Result<(), String> {
    let candidates = || commands.iter().flat_map(|command| &command.candidates);
    let going: BTreeSet<&str> = candidates().map(|candidate| &*candidate.node.name).collect();
    let mut away: BTreeMap<&str, usize> = BTreeMap::new();
    for node in snapshot
        .nodes
        .iter()
        .filter(|node| going.contains(&*node.name) || !node.lifecycle.ready)
    {
        *away.entry(node.name.split('-').next().unwrap()).or_default() += 1;
    }
    for candidate in candidates() {
        let pool = &*candidate.pool.name;
        if away[pool] > may_be_away(snapshot, pool) {
            return Err(format!("{} nodes of {pool} would be away", away[pool]));
        }
    }
    Ok(())
}

/// The price of the cheapest offering of each type a launch may become.
fn prices(launch: &Launch) -> Vec<Price> {
    let allowed = |offering: &&Offering| {
        let within = |key| {
            let wanted = launch.requirements.get(key);
            wanted.is_none_or(|wanted| {
                offering
                    .value(key)
                    .is_some_and(|value| wanted.values.contains(&value) != wanted.complement)
            })
        };
        offering.available && within(sym::ZONE) && within(sym::CAPACITY_TYPE)
    };
    let types = launch.types.iter().map(|at| &launch.catalogue.types[*at as usize]);
    types
        .map(|kind| {
            kind.offerings
                .iter()
                .filter(allowed)
                .map(|offering| offering.price)
                .min()
                .unwrap()
        })
        .collect()
}

/// The cluster costs less by what the command says, whichever of the types offered is launched.
pub fn savings_are_real(snapshot: &Snapshot, command: &Command) -> Result<(), String> {
    let going: BTreeSet<&str> = command
        .candidates
        .iter()
        .map(|candidate| &*candidate.node.name)
        .collect();
    let price = |node: &Arc<Node>| node.price.unwrap();
    let before: Price = snapshot.nodes.iter().map(price).sum();
    let staying: Price = snapshot
        .nodes
        .iter()
        .filter(|node| !going.contains(&*node.name))
        .map(price)
        .sum();
    let cheapest: Price = command
        .replacements
        .iter()
        .map(|launch| prices(launch).into_iter().min().unwrap())
        .sum();
    let dearest: Price = command
        .replacements
        .iter()
        .map(|launch| prices(launch).into_iter().max().unwrap())
        .sum();
    if before - (staying + cheapest) != command.savings() {
        return Err(format!("it claims to save {}", dollars(command.savings())));
    }
    if staying + dearest >= before {
        return Err("the cluster costs as much as before".to_owned());
    }
    Ok(())
}

/// Every pod that moves has a place in the plan of the command.
pub fn all_have_a_place(command: &Command) -> Result<(), String> {
    let Some(plan) = &command.plan else {
        let empty = command.candidates.iter().all(|candidate| candidate.pods.is_empty());
        return if empty {
            Ok(())
        } else {
            Err("pods go without a plan".to_owned())
        };
    };
    let launched = plan.launches.iter().flat_map(|launch| &launch.pods);
    let placed: BTreeSet<&str> = launched
        .chain(plan.existing.iter().flat_map(|placed| &placed.pods))
        .map(|pod| &*pod.uid)
        .collect();
    let moving = command.candidates.iter().flat_map(|candidate| &candidate.node.pods);
    let lost = moving.into_iter().find(|pod| !placed.contains(&*pod.uid));
    lost.map_or(Ok(()), |pod| Err(format!("{} has no place", pod.name)))
}
