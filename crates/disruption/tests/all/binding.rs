//! Commands that do not pay once kube-scheduler has bound their pods (`docs/deviations.md` at DIS-131).

use crate::fixture::{Asked, Cluster, sized};
use kerf_disruption::{Settings, Unconsolidatable};
use kerf_model::price::Price;

/// A node whose large pod and eight small ones fit on two others, where nothing may be disrupted. These have so much room.
fn three_pods(room: [i64; 2]) -> Cluster {
    let mut cluster = Cluster::new();
    // As much as a new one.
    cluster.node("a-1", |node| node.price = Price::from_per_hour(0.05));
    cluster.bound("a-1", "p-large", sized(1000));
    for number in 1..=8 {
        cluster.bound("a-1", &format!("p-small-{number}"), sized(125));
    }
    for (name, room) in ["b-1", "b-2"].into_iter().zip(room) {
        cluster.node(name, |node| {
            (node.managed, node.claim_name, node.pool) = (false, None, None);
        });
        cluster.bound(name, &format!("q-{name}"), sized(2000 - room));
    }
    cluster
}

// DIS-131 as docs/deviations.md has it
#[test]
fn a_node_stays_if_its_pods_would_leave_no_room_for_one_another() {
    let price = Price::from_per_hour(0.05).unwrap();
    // Small pods that come first go to both nodes, to the one with most room at a time.
    let single = Asked::default().single(&three_pods([1000, 1100]));
    let command = single.command.map(|command| command.short());
    assert_eq!(command, None);
    let held: Vec<&Unconsolidatable> = single.held.iter().map(|held| &held.why).collect();
    let expected = Unconsolidatable::NeedsMoreOnceBound {
        savings: price,
        nodes: 1,
        price,
    };
    assert_eq!(held, [&expected]);
    assert_eq!((expected.code(), expected.is_event()), ("NeedsMoreOnceBound", true));

    let short = |asked: &Asked, cluster: &Cluster| {
        let command = asked.single(cluster).command;
        command.map(|command| command.short())
    };
    let goes = Some("delete: [a-1]".to_owned());
    assert_eq!(short(&Asked::default(), &three_pods([1000, 1600])), goes, "enough room");
    let off = Asked {
        settings: Settings {
            forecast_binding: false,
            ..Settings::default()
        },
        ..Asked::default()
    };
    assert_eq!(short(&off, &three_pods([1000, 1100])), goes, "nothing is forecast");
}

// DIS-131 as docs/deviations.md has it
#[test]
fn a_command_that_saves_more_than_the_nodes_it_needs_later_is_taken() {
    let mut cluster = three_pods([1000, 1100]);
    cluster.change("a-1", |node| node.price = Price::from_per_hour(0.06));
    let command = Asked::default().single(&cluster).command.unwrap();
    assert_eq!(command.short(), "delete: [a-1]");
}
