//! Section 8.5: one node at a time.

use crate::fixture::{Asked, Cluster, budget, names, now, sized};
use kerf_disruption::{
    Allowance, Command, SingleNodeOutcome, SingleNodeResults, Unconsolidatable, interleaved, underutilized,
};
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::price::Price;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn short(single: &SingleNodeOutcome) -> String {
    single.command.as_ref().map(Command::short).unwrap_or_default()
}

/// Pools a, b and c with three, two and one nodes, all of them full.
fn three_pools() -> Cluster {
    let mut cluster = Cluster::new();
    for pool in ["a", "b", "c"] {
        cluster.typed(pool, &[("small", 2000, 0.5)], |_| {});
    }
    for (name, price) in [
        ("a-1", 0.3),
        ("a-2", 0.2),
        ("a-3", 0.1),
        ("b-1", 0.1),
        ("b-2", 0.09),
        ("c-1", 0.01),
    ] {
        cluster.of_kind(name, "small", |_| {});
        cluster.change(name, |node| node.price = Price::from_per_hour(price));
        cluster.bound(name, &format!("p-{name}"), sized(1900));
    }
    cluster
}

// DIS-174
#[test]
fn pools_take_turns_and_those_not_reached_before_come_first() {
    let cluster = three_pools();
    let (eligible, _) = underutilized(&cluster.snapshot, &cluster.free());
    let order = |first: &[&str]| -> Vec<String> {
        let first: BTreeSet<Arc<str>> = first.iter().map(|pool| Arc::from(*pool)).collect();
        let order = interleaved(&eligible, &first);
        order.iter().map(|candidate| candidate.node.name.to_string()).collect()
    };
    assert_eq!(order(&[]), ["a-1", "b-1", "c-1", "a-2", "b-2", "a-3"]);
    assert_eq!(order(&["c"]), ["c-1", "a-1", "b-1", "a-2", "b-2", "a-3"]);
}

fn ask(cluster: &Cluster, allowance: &Allowance, stop: &(dyn Fn() -> bool + Sync)) -> SingleNodeOutcome {
    Asked::default().with(cluster, |consolidation, eligible| {
        let order = interleaved(eligible, &BTreeSet::new());
        consolidation.single(&order, allowance, &SingleNodeResults::default(), stop)
    })
}

fn allowance(cluster: &Cluster) -> Allowance {
    Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now())
}

// DIS-176, DIS-177
#[test]
fn what_was_not_reached_in_time_is_remembered() {
    let cluster = three_pools();
    let looks = AtomicUsize::new(0);
    // One candidate, then two more, then the time is up.
    let single = ask(&cluster, &allowance(&cluster), &|| {
        looks.fetch_add(1, Ordering::Relaxed) >= 1
    });
    assert!(single.timed_out && single.command.is_none());
    assert_eq!(single.evaluated, 1);
    assert_eq!(
        single.unreached_pools.iter().map(|pool| &**pool).collect::<Vec<_>>(),
        ["b", "c"]
    );
    let whole = ask(&cluster, &allowance(&cluster), &|| false);
    assert!(!whole.timed_out && whole.unreached_pools.is_empty());
    assert_eq!(whole.evaluated, 6);
}

// DIS-178
#[test]
fn the_first_that_can_go_goes_and_those_before_it_say_why_they_stay() {
    let mut cluster = three_pools();
    cluster.pool("a", |pool| {
        pool.disruption.budgets = vec![budget("0")];
    });
    cluster.node("b-0", |_| {});
    let single = ask(&cluster, &allowance(&cluster), &|| false);
    // The pods of b-1 fit on the empty b-0.
    assert_eq!(short(&single), "delete: [b-1]");
    assert!(single.constrained);
    let staying: Vec<&Unconsolidatable> = single.staying.iter().map(|staying| &staying.why).collect();
    assert_eq!(staying, [&Unconsolidatable::Budget("a".into())]);
}

// DIS-178, DIS-205, DIS-210
#[test]
fn moves_the_pools_refuse_are_passed_over() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |pool| {
        pool.disruption.consolidation = ConsolidationPolicy::Balanced;
    });
    for (name, price, pods) in [("a-1", 5.0, 1), ("a-2", 0.1, 8), ("a-3", 0.1, 1)] {
        cluster.of_kind(name, "small", |_| {});
        cluster.change(name, |node| node.price = Price::from_per_hour(price));
        for pod in 0..pods {
            cluster.bound(name, &format!("{name}-{pod}"), sized(50));
        }
    }
    let dear = Arc::make_mut(&mut cluster.snapshot.nodes[0]);
    dear.lifecycle.consolidatable = false;
    let single = ask(&cluster, &allowance(&cluster), &|| false);
    assert_eq!(short(&single), "");
    assert_eq!(single.staying.len(), 2);
    for staying in &single.staying {
        assert!(
            matches!(staying.why, Unconsolidatable::Unbalanced(_)),
            "{:?}",
            staying.why
        );
        assert!(!staying.why.is_event());
    }
    // Neither was worth a what-if.
    assert!(single.judgements.is_empty());
}

// DIS-095
#[test]
fn a_candidate_that_is_on_its_way_out_is_no_command() {
    let mut cluster = Cluster::new();
    cluster.node("a-1", |_| {});
    cluster.node("a-2", |_| {});
    cluster.bound("a-1", "p", |_| {});
    let mut free = cluster.free();
    let node = Arc::make_mut(&mut free[0].node);
    node.marked_for_deletion = true;
    let outcome = Asked::default().with(&cluster, |consolidation, _| consolidation.propose(&[&free[0]]));
    assert_eq!(outcome.map(|_| ()).unwrap_err().to_string(), "candidate is deleting");
    assert_eq!(names(&free).len(), 2);
}
