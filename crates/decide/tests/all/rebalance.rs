//! The cheapest nodes for the pods that run, and the commands that lead there.

use crate::case::{Case, drifted, open_pool, texts};
use kerf_decide::{Rebalance, RebalanceStep, rebalance};
use kerf_disruption::Command;
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_testkit::disruption::{Cluster, budget, sized};
use kerf_testkit::draw::Draw;
use std::collections::BTreeSet;
use std::sync::Arc;

const TYPES: [(&str, i64, f64); 4] = [
    ("tiny", 1000, 0.06),
    ("small", 2000, 0.1),
    ("medium", 4000, 0.19),
    ("large", 8000, 0.36),
];

fn steps(found: &Rebalance) -> Vec<String> {
    let commands: Vec<Command> = found.steps.iter().map(|step| step.command.clone()).collect();
    texts(&commands)
}

#[test]
fn steps_go_on_where_earlier_ones_have_led() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-empty", "large", |node| node.lifecycle.consolidatable = false);
    // A node of two cores is enough for both, so nothing is left to do after the first step that takes them.
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "large", drifted);
        cluster.bound(node, &format!("web-{node}"), sized(900));
    }
    cluster.pending("waits", 500);
    let case = Case::of(cluster);
    let found = rebalance(&case.view());
    assert_eq!((found.before, found.nodes), (Price::from_per_hour(0.6).unwrap(), 3));
    let target = found.target.as_ref().unwrap();
    assert_eq!((target.price, target.staying), (Price::from_per_hour(0.1).unwrap(), 0));
    assert_eq!(target.launches.len(), 1);
    assert_eq!(found.after(), target.price, "{:?}", steps(&found));
    assert_eq!(found.steps[0].pass, 1);
    assert!(
        steps(&found)[0].starts_with("Empty: "),
        "drift saves nothing: {:?}",
        steps(&found)
    );
}

#[test]
fn a_target_leaves_nodes_that_may_not_go() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-kept", "large", |node| node.lifecycle.do_not_disrupt = true);
    cluster.of_kind("a-old", "large", |_| {});
    cluster.bound("a-old", "web", sized(900));
    let found = rebalance(&Case::of(cluster).view());
    let target = found.target.as_ref().unwrap();
    assert_eq!(
        (target.staying, target.launches.len()),
        (1, 0),
        "its pod fits the node that stays"
    );
    assert_eq!(target.price, Price::from_per_hour(0.2).unwrap());
    assert_eq!(steps(&found), ["Underutilized: delete: [a-old]"]);
}

/// Nodes that are mostly half empty; one budget for the pool, and now and then a PodDisruptionBudget over some pods.
fn cluster(draw: &mut Draw) -> Cluster {
    let mut cluster = Cluster::new();
    let allowed = draw.pick(&["0", "1", "2", "100%"]);
    cluster.typed("a", &TYPES, |pool| pool.disruption.budgets = vec![budget(allowed)]);
    for number in 0..3 + draw.below(8) {
        let kind = draw.pick(&TYPES);
        let name = format!("a-{number:02}");
        cluster.of_kind(&name, kind.0, |_| {});
        let mut free = kind.1;
        for pod in 0..draw.below(4) {
            let cpu = draw.pick(&[100, 250, 500, 900, 1500]);
            if cpu <= free {
                free -= cpu;
                cluster.bound(&name, &format!("p-{number}-{pod}"), sized(cpu));
            }
        }
    }
    if draw.below(4) == 0 {
        cluster.pdb("all", |_| {});
    }
    cluster
}

/// The nodes and pods that a step leaves behind: no pod is lost, none runs twice, and none is on a node that is gone.
struct Pods(Vec<(String, i64, BTreeSet<Arc<str>>)>);

impl Pods {
    fn of(case: &Case) -> Self {
        let nodes = case.snapshot.nodes.iter().map(|node| {
            let pods = node.pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
            let cpu = node.allocatable.get(kerf_model::intern::sym::CPU);
            (node.name.to_string(), cpu, pods)
        });
        Self(nodes.collect())
    }

    /// Carries out a step. Panics if it moves what is not there or leaves a pod without a node.
    fn step(&mut self, step: &RebalanceStep, launched: &mut usize) {
        let mut moving: BTreeSet<Arc<str>> = BTreeSet::new();
        for candidate in &step.command.candidates {
            let at = self.0.iter().position(|(name, ..)| *name == *candidate.node.name);
            let (_, _, pods) = self.0.remove(at.expect("a node that is there"));
            let planned = candidate.pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
            assert_eq!(pods, planned, "the pods of {}", candidate.node.name);
            moving.extend(pods);
        }
        let mut placed = 0;
        for placement in step.command.plan.iter().flat_map(|plan| &plan.existing) {
            let node = self.0.iter_mut().find(|(name, ..)| *name == *placement.node);
            let node = node.expect("a destination that is there");
            node.2.extend(placement.pods.iter().map(|pod| Arc::clone(&pod.uid)));
            placed += placement.pods.len();
        }
        for launch in &step.command.replacements {
            *launched += 1;
            let kind = &launch.catalogue.types[launch.cheapest.expect("a type").0 as usize];
            let pods = launch.pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
            let cpu = kind.capacity.get(kerf_model::intern::sym::CPU);
            self.0.push((format!("{{new-{launched:06}}}"), cpu, pods));
            placed += launch.pods.len();
        }
        assert_eq!(placed, moving.len(), "every pod that moves has a place");
        assert_eq!(self.0.len(), step.nodes);
    }
}

#[test]
fn steps_respect_budgets_and_lose_no_pod() {
    let (mut some, mut after, mut target) = (0, Price::ZERO, Price::ZERO);
    for seed in 0..200 {
        let case = Case::of(cluster(&mut Draw::new(seed)));
        let found = rebalance(&case.view());
        let mut pods = Pods::of(&case);
        let sizes: std::collections::BTreeMap<Arc<str>, i64> = case
            .snapshot
            .nodes
            .iter()
            .flat_map(|node| &node.pods)
            .map(|pod| {
                (
                    Arc::clone(&pod.uid),
                    pod.shape.requests.get(kerf_model::intern::sym::CPU),
                )
            })
            .collect();
        let (mut price, mut launched) = (found.before, 0);
        for step in &found.steps {
            pods.step(step, &mut launched);
            assert!(step.price <= price, "seed {seed}");
            assert_eq!(step.price, price - step.command.savings(), "seed {seed}");
            price = step.price;
            for (name, cpu, pods) in &pods.0 {
                let used: i64 = pods.iter().map(|uid| sizes[uid]).sum();
                assert!(used <= *cpu, "seed {seed}: {name} is too small");
            }
        }
        let blocked = !case.snapshot.pdbs.is_empty();
        let allowed = case.snapshot.pools[0].disruption.budgets.clone();
        let going = |pass| -> usize {
            let of_pass = found.steps.iter().filter(|step| step.pass == pass);
            of_pass.map(|step| step.command.candidates.len()).sum()
        };
        for pass in 1..=found.steps.last().map_or(0, |step| step.pass) {
            for (nodes, most) in [("0", 0), ("1", 1), ("2", 2)] {
                assert!(
                    allowed != [budget(nodes)] || going(pass) <= most,
                    "seed {seed}, pass {pass}"
                );
            }
        }
        for candidate in found.steps.iter().flat_map(|step| &step.command.candidates) {
            assert!(
                !blocked || candidate.pods.is_empty(),
                "seed {seed}: a budget allows no eviction"
            );
        }
        if !blocked && allowed != [budget("0")] {
            let found_target = found.target.as_ref().expect("every pod fits some type");
            let launches: Price = found_target.launches.iter().filter_map(Launch::price).sum();
            assert!(launches <= found_target.price);
            some += 1;
            after = after + found.after();
            target = target + found_target.price.min(found.after());
        }
    }
    assert!(some > 50);
    assert!(
        after.per_hour() <= 1.1 * target.per_hour(),
        "consolidation ends at {after} where {target} is possible"
    );
}
