//! Section 8.4: nodes that go together.

use crate::fixture::{Asked, Cluster, budget, names, sized, types_of};
use kerf_disruption::{Command, MultiNodeOutcome};
use kerf_model::budget::ConsolidationPolicy;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::sym;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use std::sync::Arc;

fn short(multi: &MultiNodeOutcome) -> String {
    multi.command.as_ref().map(Command::short).unwrap_or_default()
}

/// A cluster of small nodes with one pod each.
fn small(pods: &[(&str, i64)]) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1), ("large", 8000, 0.4)], |_| {});
    for (name, cpu) in pods {
        cluster.of_kind(name, "small", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(*cpu));
    }
    cluster
}

// DIS-160, DIS-162
#[test]
fn the_most_nodes_that_can_go_together_go() {
    // Three pods of a quarter each fit on the fourth node, one of its own being there.
    let cluster = small(&[("a-1", 500), ("a-2", 500), ("a-3", 500), ("a-4", 500)]);
    assert_eq!(short(&Asked::default().multi(&cluster)), "delete: [a-1, a-2, a-3]");
}

// DIS-160, DIS-161: there is no cap on how many, and no order of sizes.
#[test]
fn more_than_a_hundred_go_at_once() {
    let list: Vec<String> = (0..130).map(|number| format!("a-{number:03}")).collect();
    let pods: Vec<(&str, i64)> = list.iter().map(|name| (name.as_str(), 10)).collect();
    let command = Asked::default().multi(&small(&pods)).command.unwrap();
    // A node takes 110 pods, so that two stay.
    assert_eq!(command.candidates.len(), 128);
}

// DIS-159, DIS-172
#[test]
fn one_node_is_not_several() {
    let multi = Asked::default().multi(&small(&[("a-1", 500)]));
    assert!(multi.command.is_none() && !multi.constrained);
}

// DIS-158
#[test]
fn budgets_are_used_up_in_order_of_savings() {
    let mut cluster = small(&[("a-1", 100), ("a-2", 100), ("a-3", 100), ("a-4", 100)]);
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    pool.disruption.budgets = vec![budget("2")];
    let node = Arc::make_mut(&mut cluster.snapshot.nodes[3]);
    node.price = Price::from_per_hour(0.3);
    let multi = Asked::default().multi(&cluster);
    assert_eq!(short(&multi), "delete: [a-4, a-1]");
    assert!(multi.constrained);
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    pool.disruption.budgets = vec![budget("1")];
    let multi = Asked::default().multi(&cluster);
    assert!(multi.command.is_none() && multi.constrained);
}

// DIS-158 as docs/deviations.md has it
#[test]
fn nodes_that_cannot_go_use_up_no_budget() {
    let mut cluster = small(&[("a-3", 300), ("a-4", 300), ("a-5", 300)]);
    // They save most, and their pods fit no machine that can be launched.
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "large", |_| {});
        cluster.bound(node, &format!("stuck-{node}"), sized(9000));
    }
    let within = |cluster: &mut Cluster, nodes: &str| {
        let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
        pool.disruption.budgets = vec![budget(nodes)];
        let multi = Asked::default().multi(cluster);
        (short(&multi), multi.constrained)
    };
    assert_eq!(within(&mut cluster, "2"), ("delete: [a-3, a-4]".to_owned(), true));
    let all = ("delete: [a-3, a-4]".to_owned(), false);
    assert_eq!(within(&mut cluster, "3"), all, "all that can go were considered");
}

// DIS-160: unlike prefixes of one order, sets go round a node that cannot move.
#[test]
fn a_node_that_cannot_move_keeps_no_other() {
    let mut cluster = small(&[("a-2", 300), ("a-3", 300), ("a-4", 300), ("a-5", 300)]);
    // It saves most, so it is tried first, and its pod fits no machine that can be launched.
    cluster.of_kind("a-1", "large", |_| {});
    cluster.bound("a-1", "stuck", sized(9000));
    let multi = Asked::default().multi(&cluster);
    assert_eq!(short(&multi), "delete: [a-2, a-3, a-4]");
}

// DIS-160: nor does one that can go alone but not with others.
#[test]
fn the_set_grows_past_a_node_that_does_not_fit_in() {
    // The one spare place takes either the large pod, or many small ones.
    let mut cluster = small(&[
        ("a-1", 1500),
        ("a-2", 300),
        ("a-3", 300),
        ("a-4", 300),
        ("a-5", 300),
        ("a-6", 300),
    ]);
    let first = Arc::make_mut(&mut cluster.snapshot.nodes[0]);
    first.price = Price::from_per_hour(0.11);
    cluster.node("a-9", |node| {
        (node.managed, node.claim_name, node.pool) = (false, None, None);
    });
    let command = Asked::default().multi(&cluster).command.unwrap();
    assert!(command.candidates.len() >= 5, "{}", command.short());
    assert!(command.replacements.is_empty());
}

/// Two dear nodes and a small one that have next to nothing to do.
fn two_dear_and_a_small_one(cluster: &mut Cluster) {
    for (name, kind) in [("a-1", "2xlarge"), ("a-2", "2xlarge"), ("a-3", "small")] {
        cluster.of_kind(name, kind, |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(200));
    }
}

// DIS-165, DIS-166, DIS-167
#[test]
fn a_replacement_of_a_type_that_goes_is_no_gain() {
    // The small type that could replace it costs 0.1 on demand. As spot it would cost 0.05, but no spot capacity is offered.
    let types = [("nano", 700, 0.07), ("small", 2000, 0.1), ("2xlarge", 8000, 0.8)];
    let merge = |types: &[(&str, i64, f64)]| {
        let mut cluster = Cluster::new();
        cluster.typed("a", types, |_| {});
        two_dear_and_a_small_one(&mut cluster);
        cluster
    };
    let asked = Asked::default();
    let cluster = merge(&types[1..]);
    assert_eq!(
        short(&asked.multi(&cluster)),
        "delete: [a-1, a-2]",
        "and not all three for a small one"
    );
    let cluster = merge(&types);
    let command = asked.multi(&cluster).command.unwrap();
    assert_eq!(command.short(), "replace: [a-1, a-2, a-3] -> [1 replacement]");
    assert_eq!(types_of(&cluster, &command.replacements[0]), ["nano"]);
}

// DIS-165
#[test]
fn what_a_type_that_goes_costs_does_not_depend_on_whether_it_can_be_had() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1), ("2xlarge", 8000, 0.8)], |pool| {
        let both = Requirement::any_of(sym::CAPACITY_TYPE, [sym::ON_DEMAND, sym::SPOT]);
        pool.requirements.replace(both);
    });
    two_dear_and_a_small_one(&mut cluster);
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    let mut types = pool.catalogue.as_ref().unwrap().types.clone();
    types[0].offerings[0].available = false;
    pool.catalogue = Ok(Arc::new(Catalogue { types }));
    // As spot it is still to be had, for less than the one on demand costs that goes.
    let command = Asked::default().multi(&cluster).command.unwrap();
    assert_eq!(command.short(), "replace: [a-1, a-2, a-3] -> [1 replacement]");
    assert_eq!(types_of(&cluster, &command.replacements[0]), ["small"]);
}

// DIS-168
#[test]
fn a_type_without_a_known_price_is_never_bought_again() {
    let mut cluster = Cluster::new();
    // The cheap one would do, and is refused with the others.
    let types = [("cheap", 2000, 0.01), ("small", 2000, 0.1), ("large", 8000, 0.15)];
    cluster.typed("a", &types, |_| {});
    for name in ["a-1", "a-2"] {
        // No offering of their type is in this zone.
        cluster.of_kind(name, "small", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(1000));
        let zone = cluster.s("elsewhere");
        cluster.change(name, |node| crate::fixture::set_label(node, sym::ZONE, zone));
        cluster.snapshot.pdbs.clear();
    }
    for node in &mut cluster.snapshot.nodes {
        let node = Arc::make_mut(node);
        node.price = Price::from_per_hour(0.1);
        node.allocatable.set(sym::CPU, 1000);
    }
    let multi = Asked::default().multi(&cluster);
    assert_eq!(short(&multi), "");
}

// DIS-168
#[test]
fn the_filter_may_leave_too_few_for_min_values() {
    let least = |count| {
        let mut cluster = Cluster::new();
        let types = [("nano", 700, 0.02), ("small", 2000, 0.1), ("2xlarge", 8000, 0.8)];
        cluster.typed("a", &types, |pool| {
            let types = Requirement::exists(sym::INSTANCE_TYPE).with_min_values(Some(count));
            pool.requirements.replace(types);
        });
        two_dear_and_a_small_one(&mut cluster);
        short(&Asked::default().multi(&cluster))
    };
    assert_eq!(least(1), "replace: [a-1, a-2, a-3] -> [1 replacement]");
    assert_eq!(least(2), "delete: [a-1, a-2]");
}

// DIS-169
#[test]
fn two_cheap_nodes_are_not_merged_into_a_third() {
    let mut cluster = small(&[("a-1", 500), ("a-2", 500)]);
    cluster.bound("a-2", "more", sized(100));
    let asked = Asked::default();
    assert_eq!(short(&asked.multi(&cluster)), "");
    let single = asked.single(&cluster).command.unwrap();
    assert_eq!(single.short(), "delete: [a-1]", "the one with fewer pods");
}

// DIS-171
#[test]
fn several_nodes_do_not_come_for_several() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1), ("2xlarge", 8000, 0.8)], |_| {});
    for name in ["a-1", "a-2"] {
        cluster.of_kind(name, "2xlarge", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(1500));
    }
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    let mut types = pool.catalogue.as_ref().unwrap().types.clone();
    types[1]
        .offerings
        .iter_mut()
        .for_each(|offering| offering.available = false);
    pool.catalogue = Ok(Arc::new(Catalogue { types }));
    for node in &mut cluster.snapshot.nodes {
        let node = Arc::make_mut(node);
        node.allocatable.set(sym::CPU, 1600);
    }
    assert_eq!(short(&Asked::default().multi(&cluster)), "");
}

// DIS-163, DIS-164
#[test]
fn what_was_found_before_the_time_was_over_counts() {
    let cluster = small(&[("a-1", 500), ("a-2", 500), ("a-3", 500), ("a-4", 500)]);
    let asked = |looks: usize| {
        let seen = std::sync::atomic::AtomicUsize::new(0);
        Asked::default().with(&cluster, |consolidation, eligible| {
            let reason = kerf_model::budget::DisruptionReason::Underutilized;
            let mut allowance = kerf_disruption::Allowance::new(&cluster.snapshot, reason, crate::fixture::now());
            let stop = || seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= looks;
            consolidation.multi(eligible, &mut allowance, &stop)
        })
    };
    let none = asked(0);
    assert!(none.command.is_none() && none.timed_out);
    // `stop` is polled once before the single nodes are evaluated, and once before each set.
    let some = asked(2);
    assert!(some.timed_out);
    assert_eq!(short(&some), "delete: [a-1, a-2, a-3]");
    assert!(!asked(1000).timed_out);
}

// DIS-162, DIS-212
#[test]
fn a_set_the_pools_refuse_is_not_taken() {
    let mut cluster = small(&[("a-1", 500), ("a-2", 500), ("a-3", 500), ("a-4", 1900)]);
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    pool.disruption.consolidation = ConsolidationPolicy::Balanced;
    // Almost the whole price of the pool is that of a node that is no candidate.
    let node = Arc::make_mut(&mut cluster.snapshot.nodes[3]);
    node.price = Price::from_per_hour(50.0);
    node.lifecycle.consolidatable = false;
    let multi = Asked::default().multi(&cluster);
    assert!(multi.command.is_none());
    let judgement = multi.judgement.unwrap();
    assert!(!judgement.approved() && judgement.candidates >= 2);
}

#[test]
fn a_plan_the_checker_refuses_is_not_taken() {
    let cluster = small(&[("a-1", 500), ("a-2", 500), ("a-3", 500), ("a-4", 500)]);
    let refused = Asked::default().with(&cluster, |consolidation, eligible| {
        let reason = kerf_model::budget::DisruptionReason::Underutilized;
        let allowance = || kerf_disruption::Allowance::new(&cluster.snapshot, reason, crate::fixture::now());
        let consolidation = kerf_disruption::Consolidation {
            checker: &|_, _, _| Err("no".to_owned()),
            ..*consolidation
        };
        let multi = consolidation.multi(eligible, &mut allowance(), &|| false);
        let order: Vec<_> = eligible.iter().collect();
        let single = consolidation.single(&order, &allowance(), &multi.results, &|| false);
        (multi.command, single.command, single.staying.len())
    });
    assert!(refused.0.is_none() && refused.1.is_none());
    assert_eq!(refused.2, 4);
}

// The number of threads changes nothing.
#[test]
fn threads_do_not_change_the_outcome() {
    let list: Vec<String> = (0..40).map(|number| format!("a-{number:03}")).collect();
    let pods: Vec<(&str, i64)> = list
        .iter()
        .enumerate()
        .map(|(at, name)| (name.as_str(), 100 + at as i64 * 40))
        .collect();
    let cluster = small(&pods);
    let outcome = |threads| {
        let mut asked = Asked::default();
        asked.settings.threads = threads;
        let (multi, single) = (asked.multi(&cluster), asked.single(&cluster));
        let chosen = single.command.map(|command| command.short());
        (short(&multi), multi.results, chosen, single.staying)
    };
    let alone = outcome(1);
    assert_eq!(alone, outcome(2));
    assert_eq!(alone, outcome(7));
    assert!(!names(&Asked::default().multi(&cluster).command.unwrap().candidates).is_empty());
}
