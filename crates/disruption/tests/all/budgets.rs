//! Section 6: how many nodes may be away.

use crate::fixture::{Cluster, budget, now};
use jiff::SignedDuration;
use kerf_disruption::{Allowance, budget_faults};
use kerf_model::budget::{Budget, DisruptionReason, NodeShare, Window};
use kerf_model::intern::sym;
use kerf_model::node::Node;
use kerf_units::duration::GoDuration;
use proptest::prelude::*;

const EMPTY: DisruptionReason = DisruptionReason::Empty;

fn with_budget(nodes: &str, count: usize) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.pool("a", |pool| pool.disruption.budgets = vec![budget(nodes)]);
    for number in 0..count {
        cluster.node(&format!("a-{number}"), |_| {});
    }
    cluster
}

fn left(cluster: &Cluster) -> u32 {
    Allowance::new(&cluster.snapshot, EMPTY, now()).left("a")
}

// DIS-071, DIS-074, DIS-089, API-209
#[test]
fn shares_and_counts() {
    for (nodes, count, expected) in [
        ("10%", 10, 1),
        ("5%", 10, 1),
        ("0%", 10, 0),
        ("0", 10, 0),
        ("100%", 10, 10),
        ("3", 10, 3),
        ("10%", 0, 0),
    ] {
        assert_eq!(left(&with_budget(nodes, count)), expected, "{nodes} of {count}");
    }
    let mut unlimited = with_budget("0", 3);
    unlimited.pool("a", |pool| pool.disruption.budgets.clear());
    assert_eq!(left(&unlimited), u32::MAX);
}

// API-209
#[test]
fn the_least_of_the_budgets_that_apply_to_a_reason_wins() {
    use DisruptionReason::{Drifted, Empty, Underutilized};
    let of = |reason, nodes| {
        Ok(Budget {
            reasons: Some(vec![reason]),
            nodes: NodeShare::Count(nodes),
            window: None,
        })
    };
    let mut cluster = with_budget("100%", 10);
    cluster.pool("a", |pool| {
        pool.disruption.budgets = vec![budget("45%"), of(Drifted, 3), of(Empty, 7)];
    });
    for (reason, expected) in [(Drifted, 3), (Empty, 5), (Underutilized, 5)] {
        assert_eq!(Allowance::new(&cluster.snapshot, reason, now()).left("a"), expected);
    }
}

// DIS-304
#[test]
fn the_default_budget_lets_one_of_two_go() {
    assert_eq!(left(&with_budget("10%", 2)), 1);
}

// DIS-080, DIS-081, DIS-083
#[test]
fn which_nodes_count_and_which_are_away() {
    let table: [(&str, fn(&mut Node), u32); 10] = [
        // Each of ten nodes more makes 50 % of 20 instead of 50 % of 10.
        ("usual", |_| {}, 10),
        ("unmanaged", |node| node.managed = false, 5),
        ("not initialised", |node| node.initialized = false, 5),
        ("instance going", |node| node.lifecycle.instance_terminating = true, 5),
        ("not ready", |node| node.lifecycle.ready = false, 0),
        ("marked", |node| node.marked_for_deletion = true, 0),
        ("deleting", |node| node.lifecycle.deleting = true, 0),
        ("of another pool", |node| node.pool = None, 5),
        (
            "not ready and not initialised",
            |node| (node.initialized, node.lifecycle.ready) = (false, false),
            5,
        ),
        (
            "not ready and like one that starts again",
            |node| {
                (node.initialized, node.lifecycle.ready) = (false, false);
                node.labels.push((sym::INITIALIZED, sym::TRUE));
                node.labels.sort_unstable();
            },
            0,
        ),
    ];
    for (what, change, expected) in table {
        let mut cluster = with_budget("50%", 10);
        for number in 0..10 {
            cluster.node(&format!("a-x{number}"), change);
        }
        assert_eq!(left(&cluster), expected, "{what}");
    }
}

#[test]
fn a_node_does_not_use_up_what_its_own_drain_needs() {
    let starts_again = |node: &mut Node| {
        node.initialized = false;
        node.labels.push((sym::INITIALIZED, sym::TRUE));
        node.labels.sort_unstable();
    };
    let table: [(&str, &dyn Fn(&mut Node)); 8] = [
        ("usual", &|_| {}),
        ("not ready", &|node| node.lifecycle.ready = false),
        ("marked", &|node| node.marked_for_deletion = true),
        ("not ready soon after its initialisation", &|node| {
            node.lifecycle.ready = false;
            starts_again(node);
        }),
        ("not initialised", &|node| {
            (node.initialized, node.lifecycle.ready) = (false, false);
        }),
        ("unmanaged", &|node| {
            (node.managed, node.lifecycle.ready) = (false, false);
        }),
        ("instance going", &|node| {
            (node.lifecycle.instance_terminating, node.lifecycle.ready) = (true, false);
        }),
        ("of another pool", &|node| {
            (node.pool, node.lifecycle.ready) = (None, false);
        }),
    ];
    for (what, change) in table {
        // Another node is away.
        for (budget, expected) in [("0", false), ("1", false), ("2", true)] {
            let mut cluster = with_budget(budget, 5);
            cluster.node("a-away", |node| node.lifecycle.ready = false);
            cluster.node("a-own", change);
            let allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Drifted, now());
            let own = cluster.snapshot.nodes.iter().find(|node| &*node.name == "a-own");
            let allows = |pool: &str| allowance.allows_drain(pool, own.map(|node| &**node));
            assert_eq!(allows("a"), Some(expected), "{what}, {budget}");
            assert_eq!(allows("b"), None, "no such pool");
        }
    }
    // Alone, it needs no room besides its own.
    for change in [
        &(|node: &mut Node| node.lifecycle.ready = false) as &dyn Fn(&mut Node),
        &|node| {
            node.lifecycle.ready = false;
            starts_again(node);
        },
    ] {
        let mut cluster = with_budget("1", 5);
        cluster.node("a-own", change);
        let allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Drifted, now());
        assert_eq!(allowance.left("a"), 0);
        let own = cluster.snapshot.nodes.iter().find(|node| &*node.name == "a-own");
        assert_eq!(allowance.allows_drain("a", own.map(|node| &**node)), Some(true));
    }
}

// DIS-081, DIS-082
#[test]
fn what_is_away_is_taken_off_every_reason_and_never_below_zero() {
    let mut cluster = with_budget("2", 5);
    for number in 0..3 {
        cluster.node(&format!("a-x{number}"), |node| node.marked_for_deletion = true);
    }
    for reason in DisruptionReason::ALL {
        assert_eq!(Allowance::new(&cluster.snapshot, reason, now()).left("a"), 0);
    }
}

// DIS-084, DIS-085, OPS-259
#[test]
fn a_closed_pool_is_told_from_one_that_is_used_up() {
    let closed = |cluster: &Cluster| {
        let allowance = Allowance::new(&cluster.snapshot, EMPTY, now());
        let pool = allowance.pools().next().cloned().unwrap();
        (pool.allowed, pool.consumed, pool.is_closed())
    };
    assert_eq!(closed(&with_budget("0", 3)), (0, 0, true));
    assert_eq!(closed(&with_budget("0", 0)), (0, 0, false));
    let mut used_up = with_budget("1", 3);
    used_up.node("a-x", |node| node.lifecycle.ready = false);
    assert_eq!(closed(&used_up), (1, 1, false));
}

// DIS-086
#[test]
fn a_pool_nobody_knows_has_no_budget() {
    assert_eq!(
        Allowance::new(&with_budget("100%", 3).snapshot, EMPTY, now()).left("other"),
        0
    );
}

// DIS-020, DIS-079, API-210
#[test]
fn a_bad_budget_closes_the_pool_for_every_reason() {
    let mut cluster = with_budget("100%", 5);
    cluster.pool("a", |pool| {
        pool.disruption.budgets.push(budget("many"));
        pool.disruption.budgets.push(budget("none"));
    });
    for reason in DisruptionReason::ALL {
        assert_eq!(Allowance::new(&cluster.snapshot, reason, now()).left("a"), 0);
    }
    cluster.pool("b", |pool| pool.disruption.budgets = vec![budget("10%")]);
    let faults = budget_faults(&cluster.snapshot);
    let faults: Vec<(&str, usize, String)> = faults
        .iter()
        .map(|one| (&*one.pool, one.index, one.fault.to_string()))
        .collect();
    let expected = ["many", "none"].map(|nodes| format!("nodes {nodes:?}"));
    let [many, none] = expected;
    assert_eq!(faults, [("a", 0, many), ("a", 1, none)]);
}

// DIS-075, DIS-076, DIS-077, DIS-299, API-209
#[test]
fn windows() {
    let allowed = |schedule: &str, minutes: i64, late: i64| {
        let mut cluster = with_budget("100%", 5);
        cluster.pool("a", |pool| {
            pool.disruption.budgets.push(Ok(Budget {
                reasons: None,
                nodes: NodeShare::Count(0),
                window: Some(Window {
                    schedule: schedule.parse().unwrap(),
                    duration: GoDuration::from_secs(60 * minutes),
                }),
            }));
        });
        Allowance::new(&cluster.snapshot, EMPTY, now() + SignedDuration::from_secs(late)).left("a")
    };
    // The window opens at 12:00 UTC, which is now.
    assert_eq!(allowed("0 12 * * *", 30, -1), u32::MAX);
    assert_eq!(allowed("0 12 * * *", 30, 0), 0);
    assert_eq!(allowed("0 12 * * *", 30, 30 * 60 - 1), 0);
    assert_eq!(allowed("0 12 * * *", 30, 30 * 60), u32::MAX);
    assert_eq!(allowed("@daily", 48 * 60, 7 * 3600), 0);
}

proptest! {
    // DIS-087: whatever is taken, a pool never has more nodes away than it allows.
    #[test]
    fn nobody_takes_more_than_is_left(share in 0u32..=100, nodes in 0usize..30, away in 0usize..30) {
        let mut cluster = with_budget(&format!("{share}%"), nodes);
        for number in 0..away {
            cluster.node(&format!("a-x{number}"), |node| node.lifecycle.ready = false);
        }
        let mut allowance = Allowance::new(&cluster.snapshot, EMPTY, now());
        let taken = (0..100).filter(|_| allowance.take("a")).count();
        let allowed = ((nodes + away) * share as usize).div_ceil(100);
        prop_assert_eq!(taken, allowed.saturating_sub(away));
    }
}
