//! Consolidations that did not last are not repeated for ever (`docs/deviations.md` at DIS-119).

use crate::fixture::{Asked, Cluster, ago, sized};
use jiff::{SignedDuration, Timestamp};
use kerf_disruption::{Command, ConsolidationBackOff, Unconsolidatable};
use kerf_model::pod::Pod;
use std::sync::Arc;

/// When the command begins.
const BEGINS: i64 = 600;

/// Two nodes; the pod of the first is to go to the second.
fn before() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, cpu) in [("a-1", 300), ("a-2", 1300)] {
        cluster.node(name, |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(cpu));
    }
    cluster
}

/// The same when a-1 is gone and `pods` pods like the one on it run on a-3.
fn after(pods: usize) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.node("a-2", |_| {});
    cluster.bound("a-2", "p-a-2", sized(1300));
    cluster.node("a-3", |_| {});
    for index in 0..pods {
        cluster.bound("a-3", &format!("successor-{index}"), sized(300));
    }
    cluster
}

fn command() -> Command {
    Asked::default().propose(&before(), &["a-1"]).expect("it fits on a-2")
}

/// A pod of this size that waits, or runs on a node.
fn pod(cpu: i64, node: Option<&str>) -> Arc<Pod> {
    let mut pod = Cluster::new().pod("any", 0);
    sized(cpu)(&mut pod);
    pod.node_name = node.map(Arc::from);
    Arc::new(pod)
}

/// Until when pods like the moved one rest.
fn rest(back_off: &ConsolidationBackOff, now: Timestamp) -> Option<Timestamp> {
    back_off.rest(&[pod(300, None)], now)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

#[test]
fn pods_that_needed_a_new_node_again_rest_twice_as_long_each_time() {
    let mut back_off = ConsolidationBackOff::default();
    let now = ago(BEGINS - 60);
    for expected in [15, 30, 60, 120, 240, 480, 960, 1440, 1440] {
        back_off.begun(&command(), &before().snapshot, ago(BEGINS));
        back_off.launched(&[pod(300, None)], ago(BEGINS - 10));
        back_off.look(&after(1).snapshot, now);
        assert_eq!(rest(&back_off, now), Some(now + minutes(expected)));
    }
    assert_eq!(rest(&back_off, now + minutes(1441)), None);
    let other = back_off.rest(&[pod(301, None)], now);
    assert_eq!(other, None, "another kind of pod");
}

#[test]
fn moves_and_machines_at_the_same_time_are_one_relapse() {
    let mut back_off = ConsolidationBackOff::default();
    let now = ago(BEGINS - 60);
    for _ in 0..5 {
        back_off.begun(&command(), &before().snapshot, ago(BEGINS));
    }
    for _ in 0..3 {
        back_off.launched(&[pod(300, None), pod(300, None)], ago(BEGINS - 10));
    }
    back_off.look(&after(1).snapshot, now);
    assert_eq!(rest(&back_off, now), Some(now + minutes(15)));
    back_off.look(&after(1).snapshot, now);
    assert_eq!(rest(&back_off, now), Some(now + minutes(15)), "all is known of them");
}

#[test]
fn a_machine_for_something_else_is_no_relapse() {
    let now = ago(BEGINS - 60);
    let table: [(&str, &[Arc<Pod>], i64, usize); 6] = [
        ("nothing was launched for it, wherever it went", &[], 10, 1),
        ("it is for other pods", &[pod(301, None)], 10, 1),
        ("there are more such pods now", &[pod(300, None)], 10, 2),
        ("its node goes for another reason", &[pod(300, Some("a-7"))], 10, 1),
        ("it was launched before the move", &[pod(300, None)], -1, 1),
        ("it was launched long after the move", &[pod(300, None)], BEGINS, 1),
    ];
    for (why, pods, after_begin, successors) in table {
        let mut back_off = ConsolidationBackOff::default();
        back_off.begun(&command(), &before().snapshot, ago(BEGINS));
        back_off.launched(pods, ago(BEGINS - after_begin));
        back_off.look(&after(successors).snapshot, now);
        assert_eq!(rest(&back_off, now), None, "{why}");
    }
    // The pods of the node that goes had no place, even before they were evicted.
    let mut back_off = ConsolidationBackOff::default();
    back_off.begun(&command(), &before().snapshot, ago(BEGINS));
    back_off.launched(&[pod(300, Some("a-1"))], ago(BEGINS - 10));
    back_off.look(&after(1).snapshot, now);
    assert_eq!(rest(&back_off, now), Some(now + minutes(15)));
}

#[test]
fn a_move_that_lasts_begins_the_count_anew() {
    let mut back_off = ConsolidationBackOff::default();
    let now = ago(0);
    back_off.begun(&command(), &before().snapshot, now);
    back_off.launched(&[pod(300, None)], now);
    back_off.look(&after(1).snapshot, now);
    let (second, third) = (now + minutes(16), now + minutes(27));
    back_off.begun(&command(), &before().snapshot, second);
    back_off.look(&after(1).snapshot, third);
    back_off.begun(&command(), &before().snapshot, third);
    back_off.launched(&[pod(300, None)], third);
    back_off.look(&after(1).snapshot, third);
    assert_eq!(rest(&back_off, third), Some(third + minutes(15)));
}

#[test]
fn it_is_said_why_a_node_stays() {
    let why = Unconsolidatable::Resting(ago(0));
    assert_eq!(
        why.message(),
        "Pods like its own were moved before and needed a new node again"
    );
    assert!(why.is_event());
    assert_eq!(why.code(), "Resting");
}
