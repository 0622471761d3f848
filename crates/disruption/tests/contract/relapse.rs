//! Consolidations that did not last are not repeated for ever (`docs/deviations.md` at DIS-119).

use crate::fixture::{Asked, World, ago, sized};
use jiff::{SignedDuration, Timestamp};
use kerf_disruption::{Command, Relapses, Stay};
use kerf_model::pod::Pod;
use std::sync::Arc;

/// When the command begins.
const BEGINS: i64 = 600;

/// Two nodes; the pod of the first is to go to the second.
fn before() -> World {
    let mut world = World::new();
    for (name, cpu) in [("a-1", 300), ("a-2", 1300)] {
        world.node(name, |_| {});
        world.bound(name, &format!("p-{name}"), sized(cpu));
    }
    world
}

/// The same when a-1 is gone and a pod like the one on it runs on `node`, which was made so many seconds ago; `more` such pods run elsewhere.
fn after(node: &str, made: i64, more: usize) -> World {
    let mut world = World::new();
    world.node("a-2", |_| {});
    world.bound("a-2", "p-a-2", sized(1300));
    if node != "a-2" {
        world.node(node, |node| node.created = ago(made));
    }
    let young = |pod: &mut Pod| {
        sized(300)(pod);
        pod.created = ago(BEGINS - 1);
    };
    world.bound(node, "successor", young);
    for index in 0..more {
        world.bound("a-2", &format!("more-{index}"), young);
    }
    world
}

fn command() -> Command {
    Asked::default().propose(&before(), &["a-1"]).expect("it fits on a-2")
}

/// Until when such pods rest, after this came of the command.
fn rest(relapses: &mut Relapses, world: &World, now: Timestamp) -> Option<Timestamp> {
    relapses.begun(&command(), &before().snapshot, ago(BEGINS));
    relapses.look(&world.snapshot, now);
    let mut pod = world.pod("any", 0);
    sized(300)(&mut pod);
    relapses.rest(&[Arc::new(pod)], now)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

#[test]
fn pods_that_needed_a_new_node_again_rest_twice_as_long_each_time() {
    let mut relapses = Relapses::default();
    let now = ago(BEGINS - 60);
    let back = after("a-3", BEGINS - 10, 0);
    for expected in [15, 30, 60, 120, 240, 480, 960, 1440, 1440] {
        assert_eq!(rest(&mut relapses, &back, now), Some(now + minutes(expected)));
    }
    let later = now + minutes(1441);
    let mut pod = back.pod("any", 0);
    sized(300)(&mut pod);
    assert_eq!(relapses.rest(&[Arc::new(pod)], later), None);
    let other = back.pod("other", 301);
    assert_eq!(relapses.rest(&[Arc::new(other)], now), None, "another kind of pod");
}

#[test]
fn where_it_lasted_nothing_rests() {
    let now = ago(BEGINS - 60);
    for (why, world) in [
        ("it went where it was to go", after("a-2", 3600, 0)),
        ("the node was there before", after("a-3", BEGINS + 10, 0)),
        ("there are more such pods now", after("a-3", BEGINS - 10, 1)),
    ] {
        assert_eq!(rest(&mut Relapses::default(), &world, now), None, "{why}");
    }
    // A new node long after is due to something else.
    let mut relapses = Relapses::default();
    assert_eq!(rest(&mut relapses, &after("a-2", 3600, 0), now + minutes(10)), None);
    relapses.look(&after("a-3", BEGINS - 10, 0).snapshot, now + minutes(11));
    let mut pod = World::new().pod("any", 0);
    sized(300)(&mut pod);
    assert_eq!(relapses.rest(&[Arc::new(pod)], now + minutes(11)), None);
}

#[test]
fn a_machine_launched_on_purpose_is_no_relapse() {
    let mut world = World::new();
    world.typed("a", &[("nano", 700, 0.02), ("large", 8000, 0.4)], |_| {});
    world.of_kind("a-1", "large", |_| {});
    world.bound("a-1", "p", sized(300));
    let replaced = Asked::default().propose(&world, &["a-1"]).expect("nano is cheaper");
    assert_eq!(replaced.replacements.len(), 1);
    let mut relapses = Relapses::default();
    relapses.begun(&replaced, &before().snapshot, ago(BEGINS));
    let now = ago(BEGINS - 60);
    relapses.look(&after("a-3", BEGINS - 10, 0).snapshot, now);
    let mut pod = World::new().pod("any", 0);
    sized(300)(&mut pod);
    assert_eq!(relapses.rest(&[Arc::new(pod)], now), None);
}

#[test]
fn it_is_said_why_a_node_stays() {
    let why = Stay::Resting(ago(0));
    assert_eq!(
        why.message(),
        "Pods like its own were moved before and needed a new node again"
    );
    assert!(why.is_event());
    assert_eq!(why.code(), "Resting");
}
