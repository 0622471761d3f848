//! Section 8.3: nodes nothing needs.

use crate::fixture::{Cluster, budget, names, now};
use kerf_disruption::{Allowance, Candidate, Command, emptiness, empty, revalidate};
use kerf_model::budget::{ConsolidationPolicy, DisruptionReason};
use kerf_model::node::Node;
use kerf_model::nodepool::{Eligibility, NodePool};
use kerf_model::price::Price;

fn allowance(cluster: &Cluster) -> Allowance {
    Allowance::new(&cluster.snapshot, DisruptionReason::Empty, now())
}

fn eligible(cluster: &Cluster) -> Vec<Candidate> {
    empty(&cluster.free()).0
}

fn decide(cluster: &Cluster) -> Option<Command> {
    emptiness(&eligible(cluster), &mut allowance(cluster))
}

// DIS-115, DIS-119, DIS-150
#[test]
fn who_may_be_chosen() {
    let table: [(&str, fn(&mut NodePool), fn(&mut Node), bool); 7] = [
        ("usual", |_| {}, |_| {}, true),
        (
            "only when empty",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::WhenEmpty,
            |_| {},
            true,
        ),
        (
            "balanced",
            |pool| pool.disruption.consolidation = ConsolidationPolicy::Balanced,
            |_| {},
            true,
        ),
        ("static", |pool| pool.eligibility = Eligibility::Static, |_| {}, false),
        ("never", |pool| pool.disruption.consolidate_after = None, |_| {}, false),
        ("not yet", |_| {}, |node| node.lifecycle.consolidatable = false, false),
        (
            "unknown price and type",
            |_| {},
            |node| (node.price, node.labels) = (None, Vec::new()),
            true,
        ),
    ];
    for (what, pool, node, expected) in table {
        let mut cluster = Cluster::new();
        cluster.pool("a", pool);
        cluster.node("a-1", node);
        assert_eq!(!eligible(&cluster).is_empty(), expected, "{what}");
    }
}

// DIS-117, DIS-150
#[test]
fn a_pool_that_never_consolidates_says_so() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.consolidate_after = None);
    cluster.node("a-1", |_| {});
    let (_, staying) = empty(&cluster.free());
    assert_eq!(staying[0].why.message(), "NodePool \"a\" has consolidation disabled");
}

// DIS-150
#[test]
fn a_node_that_holds_room_for_a_buffer_stays_and_says_so() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |_| {});
    cluster.node("a-1", |node| node.lifecycle.buffer_pods = 1);
    cluster.node("a-2", |_| {});
    let (eligible, staying) = empty(&cluster.free());
    assert_eq!(names(&eligible), ["a-2"]);
    let why: Vec<&str> = staying.iter().map(|one| one.why.code()).collect();
    assert_eq!(why, ["HasBufferPods"]);
}

// DIS-122, DIS-153
#[test]
fn one_command_takes_what_budgets_allow_dearest_first_without_replacement() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.budgets = vec![budget("2")]);
    cluster.pool("b", |pool| pool.disruption.budgets = vec![budget("1")]);
    for (name, price) in [("a-1", 0.1), ("a-2", 0.3), ("a-3", 0.2), ("b-1", 0.1), ("b-2", 0.4)] {
        cluster.node(name, |node| node.price = Price::from_per_hour(price));
    }
    let command = decide(&cluster).unwrap();
    assert_eq!(names(&command.candidates), ["b-2", "a-2", "a-3"]);
    assert_eq!(command.short(), "delete: [b-2, a-2, a-3]");
    assert!(command.replacements.is_empty() && command.plan.is_none());
}

// DIS-292, DIS-293, DIS-296
#[test]
fn the_full_text_names_pools_once() {
    let mut cluster = Cluster::new();
    cluster.pool("b", |_| {});
    for name in ["a-1", "a-2", "b-1"] {
        cluster.node(name, |_| {});
    }
    assert_eq!(
        decide(&cluster).unwrap().full("id"),
        "Empty/id: delete: nodepools=[a,b]: [a-1, a-2, b-1] (savings: $0.30)"
    );
}

// DIS-086, DIS-087
#[test]
fn nothing_goes_without_budget() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.budgets = vec![budget("0")]);
    cluster.node("a-1", |_| {});
    assert!(decide(&cluster).is_none());
}

fn after(cluster: &Cluster, command: &Command, nominated: &[&str]) -> (Vec<String>, usize) {
    let now_eligible = eligible(cluster);
    let nominated = |name: &str| nominated.contains(&name);
    let result = revalidate(command, &now_eligible, &nominated, &mut allowance(cluster));
    let kept = result
        .command
        .map(|command| names(&command.candidates).iter().map(ToString::to_string).collect());
    (kept.unwrap_or_default(), result.failed)
}

fn three() -> Cluster {
    let mut cluster = Cluster::new();
    for name in ["a-1", "a-2", "a-3"] {
        cluster.node(name, |_| {});
    }
    cluster
}

// DIS-155, DIS-156, DIS-192
#[test]
fn after_the_wait_each_node_stands_alone() {
    let command = decide(&three()).unwrap();
    assert_eq!(
        after(&three(), &command, &[]),
        (vec!["a-1".into(), "a-2".into(), "a-3".into()], 0)
    );

    let mut pod_came = three();
    pod_came.bound("a-2", "p", |_| {});
    assert_eq!(after(&pod_came, &command, &[]), (vec!["a-1".into(), "a-3".into()], 0));

    assert_eq!(
        after(&three(), &command, &["a-1"]),
        (vec!["a-2".into(), "a-3".into()], 1)
    );

    let mut budget_shrank = three();
    budget_shrank.pool("a", |pool| pool.disruption.budgets = vec![budget("1")]);
    assert_eq!(after(&budget_shrank, &command, &[]), (vec!["a-1".into()], 2));

    let mut nothing_left = Cluster::new();
    nothing_left.node("a-9", |_| {});
    assert_eq!(after(&nothing_left, &command, &[]), (vec![], 3));
}

// DIS-155: a name that is used again is another node.
#[test]
fn a_new_node_of_the_same_name_was_not_decided_on() {
    let command = decide(&three()).unwrap();
    let mut renewed = Cluster::new();
    renewed.node("a-1", |node| node.lifecycle.claim_uid = Some("another".into()));
    assert_eq!(after(&renewed, &command, &[]), (vec![], 3));
}

// DIS-209
#[test]
fn what_balanced_pools_weigh_is_not_asked_of_empty_nodes() {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| {
        pool.disruption.consolidation = ConsolidationPolicy::Balanced;
    });
    // Without a price nothing is saved, which no score passes.
    cluster.node("a-1", |node| node.price = None);
    assert_eq!(names(&decide(&cluster).unwrap().candidates), ["a-1"]);
}
