//! Section 8.7: the policy Balanced.

use crate::fixture::{Asked, Cluster, sized};
use kerf_disruption::{Balance, Candidate, Command, Cost, Decision, PoolJudgement, Score, Totals, Unconsolidatable};
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::nodepool::NodePool;
use kerf_model::pod::Owner;
use kerf_model::price::Price;
use std::sync::Arc;

fn price(per_hour: f64) -> Price {
    Price::from_per_hour(per_hour).unwrap()
}

fn cost(pods: i64) -> Cost {
    std::iter::repeat_n(Cost::ONE, usize::try_from(pods).unwrap()).sum()
}

fn score(savings: f64, disruption: i64, totals: (f64, i64)) -> Score {
    let totals = Totals {
        price: price(totals.0),
        disruption: cost(totals.1),
    };
    let savings = match savings < 0.0 {
        true => Price::ZERO - price(-savings),
        false => price(savings),
    };
    Score::new(savings, cost(disruption), totals)
}

// DIS-193, DIS-194, DIS-207, DIS-208
#[test]
fn worked_values() {
    let (pool, uniform, mixed) = ((58.08, 90), (48.40, 90), (58.08, 117));
    let table = [
        (7.26, 4, pool, 2.81, true),
        (4.84, 5, pool, 1.50, true),
        (2.42, 9, pool, 0.417, false),
        (0.0, 11, pool, 0.0, false),
        (2.42, 9, uniform, 0.5, true),
        (4.84, 5, mixed, 1.95, true),
        (4.84, 32, mixed, 0.30, false),
        // Scale makes no difference.
        (4.84, 5, (5808.0, 9000), 1.50, true),
        (-1.0, 5, pool, 0.0, false),
        (1.0, 5, (0.0, 90), 0.0, false),
        (1.0, 5, (10.0, 0), 0.0, false),
    ];
    for (savings, disruption, totals, value, approved) in table {
        let score = score(savings, disruption, totals);
        assert!(
            (score.value - value).abs() < 0.01,
            "{savings} {disruption} {totals:?}: {}",
            score.value
        );
        assert_eq!(score.approved, approved, "{savings} {disruption} {totals:?}");
    }
    let free = score(1.0, 0, (10.0, 90));
    assert!(free.value.is_infinite() && free.approved);
}

// DIS-213
#[test]
fn the_text_of_a_score() {
    assert_eq!(
        score(4.84, 5, (58.08, 90)).to_string(),
        "score 1.50 >= threshold 0.50 (k: 2, savings 8.3%, disruption 5.6%)"
    );
    assert_eq!(
        score(2.42, 9, (58.08, 90)).to_string(),
        "score 0.42 < threshold 0.50 (k: 2, savings 4.2%, disruption 10.0%)"
    );
}

fn balanced(pool: &mut NodePool) {
    pool.disruption.consolidation = ConsolidationPolicy::Balanced;
}

/// A node with so many plain pods.
fn node(cluster: &mut Cluster, name: &str, per_hour: f64, pods: usize) {
    cluster.node(name, |node| node.price = Price::from_per_hour(per_hour));
    for pod in 0..pods {
        cluster.bound(name, &format!("{name}-{pod}"), sized(10));
    }
}

fn deletion(candidates: &[Candidate], names: &[&str]) -> Command {
    let chosen = candidates
        .iter()
        .filter(|candidate| names.contains(&&*candidate.node.name));
    Command {
        reason: DisruptionReason::Underutilized,
        candidates: chosen.cloned().collect(),
        replacements: Vec::new(),
        plan: None,
    }
}

/// The score a deletion has in pool `pool`.
fn of(cluster: &Cluster, names: &[&str], pool: &str) -> Option<Score> {
    let free = cluster.free();
    let judgement = Balance::new(&cluster.snapshot, &free).judge(&deletion(&free, names));
    let of_pool = judgement.by_pool.into_iter().find(|of_pool| *of_pool.pool == *pool);
    of_pool.and_then(|of_pool| of_pool.score)
}

// DIS-195, DIS-196, DIS-197, DIS-198, DIS-199
#[test]
fn totals_are_those_of_all_nodes_of_the_pool() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    node(&mut cluster, "a-1", 1.0, 2);
    node(&mut cluster, "a-2", 2.0, 1);
    cluster.node("a-3", |node| node.price = None);
    // Not a candidate: all its pods count but those of DaemonSets.
    node(&mut cluster, "a-4", 3.0, 1);
    cluster.bound("a-4", "daemon", |pod| pod.owner = Owner::DaemonSet);
    cluster.bound("a-4", "mirror", |pod| pod.owner = Owner::Node);
    cluster.bound("a-4", "going", |pod| pod.deletion = Some(crate::fixture::now()));
    let last = cluster.snapshot.nodes.last_mut().unwrap();
    Arc::make_mut(last).marked_for_deletion = true;
    let score = of(&cluster, &["a-1", "a-3"], "a").unwrap();
    assert_eq!(score.totals.price, price(6.0));
    assert_eq!(score.totals.disruption, cost(3 + 2 + 1 + 4));
    assert_eq!(score.savings, price(1.0));
    assert_eq!(score.disruption, cost(3 + 1), "one per node, and its pods");
}

// DIS-206
#[test]
fn deletions_in_a_uniform_pool_pass() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    for name in ["a-1", "a-2", "a-3"] {
        node(&mut cluster, name, 1.0, 2);
    }
    let score = of(&cluster, &["a-2"], "a").unwrap();
    assert!(score.approved && score.value >= 1.0);
    let mut only = Cluster::new();
    only.pool("a", balanced);
    node(&mut only, "a-1", 1.0, 7);
    let score = of(&only, &["a-1"], "a").unwrap();
    assert_eq!((score.value, score.approved), (1.0, true));
}

// DIS-202, DIS-203, DIS-204
#[test]
fn every_balanced_pool_must_approve_its_part() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    cluster.pool("b", balanced);
    cluster.pool("c", |_| {});
    node(&mut cluster, "a-1", 1.0, 1);
    node(&mut cluster, "a-2", 1.0, 1);
    node(&mut cluster, "b-1", 1.0, 8);
    node(&mut cluster, "b-2", 99.0, 1);
    node(&mut cluster, "c-1", 2.0, 1);
    let free = cluster.free();
    let balance = Balance::new(&cluster.snapshot, &free);
    let judgement = balance.judge(&deletion(&free, &["a-1", "b-1", "c-1"]));
    let said: Vec<(&str, Option<bool>, f64)> = judgement
        .by_pool
        .iter()
        .map(|of_pool| {
            let score = of_pool.score.as_ref();
            (
                &*of_pool.pool,
                score.map(|score| score.approved),
                score.map_or(0.0, |score| score.savings.per_hour()),
            )
        })
        .collect();
    assert_eq!(
        said,
        [("a", Some(true), 1.0), ("b", Some(false), 1.0), ("c", None, 0.0)]
    );
    assert!(!judgement.approved());
    assert!(balance.judge(&deletion(&free, &["a-1", "c-1"])).approved());
    assert!(balance.judge(&deletion(&free, &["c-1"])).approved());
    // A command without nodes is not approved, nor is one of a pool without totals.
    assert!(!balance.judge(&deletion(&free, &[])).approved());
    assert!(!Balance::default().judge(&deletion(&free, &["a-1"])).approved());
}

// DIS-202
#[test]
fn what_a_replacement_costs_is_shared_as_well() {
    let mut cluster = Cluster::new();
    let types = [("nano", 700, 0.04), ("small", 2000, 0.1), ("large", 8000, 0.3)];
    for pool in ["a", "b"] {
        cluster.typed(pool, &types, balanced);
    }
    for (name, kind) in [("a-1", "large"), ("b-1", "small")] {
        cluster.of_kind(name, kind, |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(200));
    }
    let command = Asked::default().propose(&cluster, &["a-1", "b-1"]).unwrap();
    assert_eq!(command.short(), "replace: [a-1, b-1] -> [1 replacement]");
    assert_eq!(command.savings(), price(0.36));
    let judgement = Balance::new(&cluster.snapshot, &cluster.free()).judge(&command);
    let part = |of_pool: &PoolJudgement| (of_pool.pool.to_string(), of_pool.score.as_ref().unwrap().savings);
    let parts: Vec<(String, Price)> = judgement.by_pool.iter().map(part).collect();
    // Three quarters of the prices are one pool's, and so are three quarters of what is saved.
    assert_eq!(parts, [("a".into(), price(0.27)), ("b".into(), price(0.09))]);
    assert!(judgement.approved() && judgement.decision == Decision::Replace);
}

// DIS-202
#[test]
fn nothing_is_split_where_nothing_has_a_price() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    cluster.pool("b", balanced);
    for name in ["a-1", "b-1"] {
        cluster.node(name, |node| node.price = None);
    }
    assert_eq!(of(&cluster, &["a-1", "b-1"], "a").unwrap().savings, Price::ZERO);
}

// DIS-205
#[test]
fn what_would_not_even_pass_as_a_deletion_is_hopeless() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    node(&mut cluster, "a-1", 0.1, 9);
    node(&mut cluster, "a-2", 9.9, 1);
    let free = cluster.free();
    let balance = Balance::new(&cluster.snapshot, &free);
    let hopeless =
        |balance: &Balance| -> Vec<bool> { free.iter().map(|one| balance.hopeless(one).is_some()).collect() };
    assert_eq!(hopeless(&balance), [true, false]);
    assert_eq!(hopeless(&Balance::default()), [false, false]);
    cluster.pool("a", |_| {});
    let free = cluster.free();
    let balance = Balance::new(&cluster.snapshot, &free);
    assert!(free.iter().all(|one| balance.hopeless(one).is_none()));
}

// DIS-205
#[test]
fn a_pool_that_costs_nothing_is_no_reason_to_skip_its_nodes() {
    let mut cluster = Cluster::new();
    cluster.pool("a", balanced);
    node(&mut cluster, "a-1", 0.0, 1);
    node(&mut cluster, "a-2", 0.0, 1);
    let free = cluster.free();
    let balance = Balance::new(&cluster.snapshot, &free);
    assert!(free.iter().all(|one| balance.hopeless(one).is_none()));
    // A move that is proposed is refused all the same (DIS-194).
    assert!(!balance.judge(&deletion(&free, &["a-1"])).approved());
}

// DIS-178, DIS-193, DIS-210
#[test]
fn a_node_whose_replacement_saves_too_little_is_passed_over() {
    let mut cluster = Cluster::new();
    let types = [
        ("tiny", 2000, 0.01),
        ("medium", 3500, 0.09),
        ("large", 4000, 0.1),
        ("2xlarge", 4500, 0.2),
    ];
    cluster.typed("a", &types, balanced);
    // It is tried first, and would pass as a deletion: a third of the price, a quarter of the disruption.
    cluster.of_kind("a-1", "large", |_| {});
    cluster.bound("a-1", "big", sized(3000));
    cluster.of_kind("a-2", "2xlarge", |_| {});
    for pod in 0..5 {
        cluster.bound("a-2", &format!("p-{pod}"), sized(500));
    }
    let single = Asked::default().single(&cluster);
    assert_eq!(single.command.unwrap().short(), "replace: [a-2] -> [1 replacement]");
    let [stays] = single.staying.as_slice() else {
        panic!("one stays: {:?}", single.staying)
    };
    let Unconsolidatable::Unbalanced(score) = &stays.why else {
        panic!("it was weighed: {:?}", stays.why)
    };
    // A thirtieth of the price is saved for a quarter of the disruption.
    assert!((score.value - 4.0 / 30.0).abs() < 1e-9, "{score}");
    assert!(!stays.why.is_event());
    let said: Vec<(usize, Decision, bool)> = single
        .judgements
        .iter()
        .map(|judgement| (judgement.candidates, judgement.decision, judgement.approved()))
        .collect();
    assert_eq!(said, [(1, Decision::Replace, false), (1, Decision::Replace, true)]);
}
