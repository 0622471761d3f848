//! What disruption would do from here on, as `kerf simulate --consolidate` prints it.

use crate::case::{Case, commands, drifted, open_pool, texts};
use crate::unread::unread_pod;
use kerf_decide::{Forecast, Memory, Method, UnreadNodes, forecast};
use kerf_model::in_flight::StaticPool;
use kerf_model::nodepool::Eligibility;
use kerf_testkit::disruption::{Cluster, budget, now, sized};
use std::collections::BTreeMap;

/// The forecast for all nodes where everything could be read.
fn all(case: &Case) -> Forecast {
    forecast(&case.view(), None)
}

#[test]
fn commands_follow_each_other_up_to_the_first_consolidation() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    cluster.of_kind("a-drifted", "small", drifted);
    cluster.bound("a-drifted", "old", sized(1900));
    cluster.of_kind("a-empty", "small", |_| {});
    for node in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), sized(700));
    }
    cluster.of_kind("a-full", "small", |node| node.lifecycle.do_not_disrupt = true);
    cluster.bound("a-full", "db", sized(1900));
    let case = Case::of(cluster);
    let found = all(&case);
    let commands_found = texts(&found.commands);
    assert_eq!(
        &commands_found[..2],
        [
            "Empty: delete: [a-empty]",
            "Drifted: replace: [a-drifted] -> [1 replacement]"
        ]
    );
    assert_eq!(commands_found.len(), 3, "{commands_found:?}");
    assert!(commands_found[2].starts_with("Underutilized: "), "{commands_found:?}");
    let first = commands(&case.round(Method::Emptiness, &mut Memory::default()));
    assert_eq!(
        first,
        commands_found[..2],
        "a round of a controller begins with the same"
    );
    let full = case.snapshot.position("a-full").unwrap();
    let (_, obstacles) = found.obstacles.iter().find(|(index, _)| *index == full).unwrap();
    assert!(!obstacles.is_empty());
    let only = forecast(&case.view(), Some(full));
    assert_eq!(only.obstacles.len(), 1);
    assert_eq!(only.obstacles[0].0, full);
}

// LIF-213
#[test]
fn replacements_in_a_static_pool_take_its_room_once() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1)], |pool| {
        pool.eligibility = Eligibility::Static;
        pool.disruption.budgets = vec![budget("100%")];
    });
    for node in ["a-1", "a-2", "a-3"] {
        cluster.of_kind(node, "small", drifted);
    }
    let mut case = Case::of(cluster);
    case.settings.static_capacity = true;
    let (replicas, staying, room) = (3, 3, 2);
    let pool = StaticPool {
        replicas,
        staying,
        room,
    };
    case.in_flight.static_pools = BTreeMap::from([("a".into(), pool)]);
    assert_eq!(all(&case).commands.len(), 2);
}

#[test]
fn what_cannot_be_read_is_named_unless_the_node_cannot_go_at_all() {
    let mut cluster = Cluster::new();
    open_pool(&mut cluster);
    for node in ["a-1", "a-2"] {
        cluster.of_kind(node, "small", |_| {});
        cluster.bound(node, &format!("web-{node}"), sized(1900));
    }
    cluster.of_kind("a-foreign", "small", |node| node.managed = false);
    cluster.of_kind("a-held", "small", |node| node.lifecycle.do_not_disrupt = true);
    let mut case = Case::of(cluster);
    let pods = case.snapshot.nodes.iter().map(|node| unread_pod(&node.name));
    case.settings.unread = UnreadNodes::new(pods.collect(), &case.snapshot, now());
    let codes = |found: Forecast, node: &str| -> Vec<&str> {
        let at = case.snapshot.position(node).unwrap();
        let mut obstacles = found.obstacles.into_iter();
        let (_, of_node) = obstacles.find(|(index, _)| *index == at).unwrap();
        of_node.iter().map(|obstacle| obstacle.code).collect()
    };
    let of = |node: &str| codes(forecast(&case.view(), None), node);
    assert_eq!(of("a-held"), ["NodeAnnotation", "Unreadable"]);
    assert_eq!(of("a-foreign"), ["Unmanaged"], "nothing else matters");
}
