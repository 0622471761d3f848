//! Nodes that objects which cannot be read may protect.

use crate::case::{Case, commands, open_pool};
use kerf_decide::{Memory, Method, UnreadNodes, validate};
use kerf_disruption::{Blocker, Unread};
use kerf_testkit::disruption::{Cluster, now, sized};

/// A pod on a node, of which nothing else can be read.
pub(crate) fn unread_pod(node: &str) -> Unread {
    Unread {
        problem: "spec: is text".to_owned(),
        ..Unread::of("Pod", Some(node), None).expect("it protects")
    }
}

/// The case with these objects.
fn with(case: &Case, unread: Vec<Unread>) -> Case {
    let mut case = case.clone();
    case.settings.unread = UnreadNodes::new(unread, &case.snapshot, now());
    case
}

// DIS-034, DIS-037 as docs/deviations.md has them
#[test]
fn a_node_stays_while_something_that_may_protect_it_cannot_be_read() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "small", |_| {});
    }
    let case = Case::of(cluster);
    let held = with(&case, vec![unread_pod("a-1")]);
    let mut memory = Memory::default();
    let round = held.round(Method::Emptiness, &mut memory);
    assert_eq!(commands(&round), ["Empty: delete: [a-2]"]);
    let blocked = &round.evaluations[0].sorted.candidates.blocked;
    let [(0, blocker @ Blocker::Unreadable(_))] = blocked.as_slice() else {
        panic!("{blocked:?}");
    };
    assert!(blocker.is_event());
    assert_eq!(
        blocker.message(),
        "Pod (without a name), which may protect it, cannot be read: spec: is text; \
         correct the Pod: what it protects is not known before"
    );
    // It can be read, or is gone: the same snapshot is evaluated again.
    let free = case.round(Method::Emptiness, &mut memory);
    assert_eq!(commands(&free), ["Empty: delete: [a-1, a-2]"]);
    // It is there again.
    let found = commands(&held.round(Method::Emptiness, &mut memory));
    assert_eq!(found, ["Empty: delete: [a-2]"]);
    // It came while a command waited.
    let command = free.commands().next().unwrap();
    let validation = validate(&held.view(), Method::Emptiness, command, &[], &mut memory);
    assert_eq!(validation.result.unwrap().short(), "delete: [a-2]");
}

#[test]
fn no_pod_moves_beside_one_that_cannot_be_read() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", sized(500));
    cluster.of_kind("a-2", "large", |_| {});
    cluster.bound("a-2", "q", sized(3000));
    let case = Case::of(cluster);
    let of = |unread| {
        let case = with(&case, unread);
        commands(&case.round(Method::MultiNodeConsolidation, &mut Memory::default()))
    };
    assert_eq!(of(Vec::new()), ["Underutilized: delete: [a-1]"]);
    assert_eq!(of(vec![unread_pod("a-2")]), [""; 0]);
    // A budget takes no room.
    let mut budget = Unread::of("PodDisruptionBudget", None, None).unwrap();
    budget.namespace = Some("elsewhere".to_owned());
    assert_eq!(of(vec![budget]), ["Underutilized: delete: [a-1]"]);
}
