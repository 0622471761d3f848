//! Consolidations that did not last are not repeated for ever (`docs/deviations.md` at DIS-119).

use crate::fixture::{mirror, node, now, pending, running, yaml};
use jiff::{SignedDuration, Timestamp};
use kerf_model::in_flight::{StartedMove, UndoneMove};
use kerf_model::plan::{Placement, Plan};
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::snapshot::Snapshot;
use kerf_state::lean::{LeanNode, LeanPod};
use kerf_state::{Mirror, Now};
use std::sync::Arc;
use std::time::Duration;

/// A cluster before a command moves the pod of `a-1` to `a-2`, and the command's time.
struct Moves {
    mirror: Mirror,
    before: Arc<Snapshot>,
    moved: Arc<Pod>,
}

impl Moves {
    fn new() -> Self {
        let mut mirror = mirror();
        mirror.reset(vec![node("a-1", "", "[]"), node("a-2", "", "[]")]);
        mirror.reset(vec![running("p-1", "a-1", "300m"), running("p-2", "a-2", "1300m")]);
        let before = mirror.snapshot(now());
        let moved = mirror.pod("default", "p-1").unwrap();
        Self { mirror, before, moved }
    }

    fn begin(&mut self, at: Timestamp) {
        let from = vec!["a-1".into()];
        self.mirror.note_moved(from, [&self.moved], None, &self.before, at);
    }

    /// Expires at `at`, when a-1 is gone and `successors` pods like the one on it run on a-3.
    fn expire(&mut self, successors: usize, at: Timestamp) {
        let mut pods: Vec<LeanPod> = vec![running("p-2", "a-2", "1300m")];
        pods.extend((0..successors).map(|index| running(&format!("successor-{index}"), "a-3", "300m")));
        let nodes: Vec<LeanNode> = vec![node("a-2", "", "[]"), node("a-3", "", "[]")];
        self.mirror.reset(nodes);
        self.mirror.reset(pods);
        self.mirror.expire(Now {
            wall: at,
            uptime: Duration::ZERO,
        });
    }

    /// The undone move of pods that ask for this much.
    fn undone(&mut self, cpu: &str, at: Timestamp) -> Option<UndoneMove> {
        let (_, in_flight) = self.mirror.decision_state(at);
        let pod = mirrored_pod(cpu, None);
        in_flight.undone.into_iter().find(|undone| undone.is_about(&pod))
    }

    /// Until when it counts.
    fn until(&mut self, cpu: &str, at: Timestamp) -> Option<Timestamp> {
        self.undone(cpu, at).map(|undone| undone.until)
    }
}

/// A pod that asks for CPU and waits, or runs on a node.
fn mirrored_pod(cpu: &str, node: Option<&str>) -> Arc<Pod> {
    let mut mirror = mirror();
    let spec = format!("{{containers: [{{name: a, resources: {{requests: {{cpu: {cpu}}}}}}}]}}");
    let lean = node.map_or_else(|| pending("any", &spec), |node| running("any", node, cpu));
    mirror.apply(lean);
    mirror.pod("default", "any").unwrap()
}

/// What every machine costs.
fn price() -> Option<Price> {
    Price::from_per_hour(0.1)
}

fn minutes(minutes: i64) -> SignedDuration {
    SignedDuration::from_mins(minutes)
}

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

#[test]
fn an_undone_move_counts_twice_as_long_each_time_up_to_an_hour() {
    let mut moves = Moves::new();
    let at = now() + minutes(9);
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        moves.begin(now());
        moves
            .mirror
            .note_launched(&[mirrored_pod("300m", None)], price(), now() + minutes(8));
        moves.expire(1, at);
        assert_eq!(moves.until("300m", at), Some(at + minutes(expected)));
    }
    assert_eq!(moves.until("300m", at + minutes(61)), None);
    assert_eq!(moves.until("301m", at), None, "another kind of pod");
}

#[test]
fn the_count_begins_anew_when_the_number_of_such_pods_changed() {
    let mut moves = Moves::new();
    let undone = |moves: &mut Moves, successors: usize, at: Timestamp| {
        moves.begin(at);
        let pod = mirrored_pod("300m", None);
        moves.mirror.note_launched(&[pod], price(), at);
        moves.expire(successors, at);
        moves.until("300m", at)
    };
    let after = |count| Some(now() + minutes(count));
    assert_eq!(undone(&mut moves, 1, now()), after(1));
    assert_eq!(undone(&mut moves, 1, now()), after(2));
    moves.mirror.apply(running("p-3", "a-2", "300m"));
    moves.before = moves.mirror.snapshot(now());
    assert_eq!(undone(&mut moves, 2, now()), after(2), "the second time still runs");
    let later = now() + minutes(2);
    assert_eq!(
        undone(&mut moves, 2, later),
        after(4),
        "the second time with two replicas"
    );
    // Another workload of the same requests is moved: neither was scaled.
    Arc::make_mut(&mut moves.moved).labels = Arc::new([("app", "other")].into_iter().collect());
    moves.begin(later);
    let mut other = mirrored_pod("300m", None);
    Arc::make_mut(&mut other).labels = Arc::clone(&moves.moved.labels);
    moves.mirror.note_launched(&[other], price(), later);
    moves.expire(0, later);
    assert_eq!(moves.until("300m", later), after(6));
}

#[test]
fn a_move_that_is_undone_again_while_it_has_to_save_more_has_to_save_the_sum() {
    let mut moves = Moves::new();
    let mut undone_at = |second: i64| {
        let at = now() + seconds(second);
        moves.begin(at);
        let pod = mirrored_pod("300m", None);
        moves.mirror.note_launched(&[pod], price(), at);
        moves.expire(1, at);
        moves.undone("300m", at).map(|undone| undone.surcharge_per_pod)
    };
    let times = |count: u64| Price::from_per_hour(0.1 * count as f64);
    assert_eq!(undone_at(0), times(1), "for one minute");
    assert_eq!(undone_at(59), times(2), "for two minutes");
    assert_eq!(undone_at(178), times(3), "for four minutes");
    assert_eq!(undone_at(418), times(3), "it may be tried again by then");
}

#[test]
fn the_cost_of_new_machines_is_that_of_all_pods_that_were_moved() {
    let mut moves = Moves::new();
    let at = now() + minutes(1);
    let others = ["p-3", "p-4", "p-5"].map(|name| running(name, "a-1", "300m"));
    for pod in others {
        moves.mirror.apply(pod);
    }
    moves.before = moves.mirror.snapshot(now());
    let moved = ["p-1", "p-3", "p-4", "p-5"].map(|name| moves.mirror.pod("default", name).unwrap());
    let from = vec!["a-1".into()];
    moves.mirror.note_moved(from, &moved, None, &moves.before, now());
    moves.mirror.note_launched(&[mirrored_pod("300m", None)], price(), at);
    moves.expire(4, at);
    let per_pod = moves.undone("300m", at).map(|undone| undone.surcharge_per_pod);
    assert_eq!(per_pod, Price::from_per_hour(0.025));
}

#[test]
fn a_machine_for_another_workload_with_equal_requests_does_not_count() {
    let mut moves = Moves::new();
    let mut other = mirrored_pod("300m", None);
    Arc::make_mut(&mut other).labels = Arc::new([("app", "other")].into_iter().collect());
    moves.begin(now());
    moves.mirror.note_launched(&[other], price(), now() + seconds(10));
    moves.expire(1, now() + minutes(1));
    assert_eq!(moves.until("300m", now() + minutes(1)), None);
}

// Deviation at DIS-104.
#[test]
fn decisions_know_the_moves_of_the_last_ten_minutes() {
    let mut moves = Moves::new();
    moves.begin(now());
    for (passed, is_known) in [(seconds(0), true), (seconds(599), true), (seconds(600), false)] {
        moves.expire(0, now() + passed);
        let (_, in_flight) = moves.mirror.decision_state(now() + passed);
        let expected = is_known.then_some(StartedMove { at: now(), nodes: 1 });
        assert_eq!(in_flight.moves, Vec::from_iter(expected), "after {passed:?}");
    }
}

#[test]
fn moves_and_machines_at_the_same_time_count_once() {
    let mut moves = Moves::new();
    let at = now() + minutes(9);
    for _ in 0..5 {
        moves.begin(now());
    }
    for _ in 0..3 {
        let pods = [mirrored_pod("300m", None), mirrored_pod("300m", None)];
        moves.mirror.note_launched(&pods, price(), now() + minutes(8));
    }
    for _ in 0..2 {
        moves.expire(1, at);
        let found = moves.until("300m", at);
        assert_eq!(found, Some(at + minutes(1)), "the second time nothing is new");
    }
}

#[test]
fn a_machine_for_something_else_does_not_count() {
    let at = now() + minutes(9);
    let rows: [(&str, Vec<Arc<Pod>>, i64, usize); 6] = [
        ("nothing was launched for it, wherever it went", Vec::new(), 10, 1),
        ("it is for other pods", vec![mirrored_pod("301m", None)], 10, 1),
        ("there are more such pods now", vec![mirrored_pod("300m", None)], 10, 2),
        (
            "its node goes for another reason",
            vec![mirrored_pod("300m", Some("a-7"))],
            10,
            1,
        ),
        (
            "it was launched before the move",
            vec![mirrored_pod("300m", None)],
            -1,
            1,
        ),
        (
            "it was launched long after the move",
            vec![mirrored_pod("300m", None)],
            600,
            1,
        ),
    ];
    for (why, pods, after_begin, successors) in rows {
        let mut moves = Moves::new();
        moves.begin(now());
        moves.mirror.note_launched(&pods, price(), now() + seconds(after_begin));
        moves.expire(successors, at);
        assert_eq!(moves.until("300m", at), None, "{why}");
    }
    // The pods of the node that goes had no place, even before they were evicted.
    let mut moves = Moves::new();
    moves.begin(now());
    moves
        .mirror
        .note_launched(&[mirrored_pod("300m", Some("a-1"))], price(), now() + seconds(10));
    moves.expire(1, at);
    assert_eq!(moves.until("300m", at), Some(at + minutes(1)));
}

#[test]
fn a_move_that_lasts_begins_the_count_anew() {
    let mut moves = Moves::new();
    moves.begin(now());
    moves
        .mirror
        .note_launched(&[mirrored_pod("300m", None)], price(), now());
    moves.expire(1, now());
    let (second, third) = (now() + minutes(16), now() + minutes(27));
    moves.begin(second);
    moves.expire(1, third);
    moves.begin(third);
    moves
        .mirror
        .note_launched(&[mirrored_pod("300m", None)], price(), third);
    moves.expire(1, third);
    assert_eq!(moves.until("300m", third), Some(third + minutes(1)));
}

/// A pod that runs on a node since a time.
fn running_since(name: &str, node: &str, created: Timestamp) -> LeanPod {
    let requests = "resources: {requests: {cpu: 300m}}";
    yaml(&format!(
        "{{metadata: {{name: {name}, namespace: default, uid: uid-{name}, creationTimestamp: '{created}'}},
           spec: {{nodeName: {node}, containers: [{{name: a, {requests}}}]}}, status: {{phase: Running}}}}"
    ))
}

#[test]
fn a_move_into_the_room_of_a_pod_that_waited_is_undone() {
    let long_before = now() - minutes(60);
    let rows = [
        ("it is where there was room for the pod that waited", "a-3", now(), true),
        ("it is where it should go", "a-2", now(), false),
        ("it has been there all the time", "a-3", long_before, false),
    ];
    for (why, at, created, is_undone) in rows {
        let mut moves = Moves::new();
        moves.mirror.apply(node("a-3", "", "[]"));
        moves.mirror.apply(pending(
            "waits",
            "{containers: [{name: a, resources: {requests: {cpu: 3600m}}}]}",
        ));
        moves.before = moves.mirror.snapshot(now());
        let waits = moves.mirror.pod("default", "waits").unwrap();
        let place = |node: &str, pod: &Arc<Pod>| Placement {
            node: node.into(),
            pods: vec![Arc::clone(pod)],
        };
        let plan = Plan {
            existing: vec![place("a-2", &moves.moved), place("a-3", &waits)],
            ..Plan::default()
        };
        // Times of creation have no fractions.
        let began = now() + SignedDuration::from_millis(900);
        let from = vec!["a-1".into()];
        moves
            .mirror
            .note_moved(from, [&moves.moved], Some(&plan), &moves.before, began);
        moves.mirror.note_launched(&[waits], price(), now() + seconds(2));
        moves.mirror.reset(vec![node("a-2", "", "[]"), node("a-3", "", "[]")]);
        moves.mirror.reset(vec![
            running("p-2", "a-2", "1300m"),
            running_since("successor", at, created),
        ]);
        let later = now() + seconds(3);
        moves.mirror.expire(Now {
            wall: later,
            uptime: Duration::ZERO,
        });
        let expected = is_undone.then(|| later + minutes(1));
        assert_eq!(moves.until("300m", later), expected, "{why}");
        assert_eq!(moves.until("3600m", later), None, "{why}: it was not moved");
        let surcharge = moves.undone("300m", later).map(|undone| undone.surcharge_per_pod);
        assert_eq!(surcharge, price().filter(|_| is_undone), "{why}");
    }
}
