//! Section 8.2: from spot to spot.

use crate::fixture::{Asked, Cluster, set_label, sized, text, types_of};
use kerf_disruption::{Command, Settings, Unconsolidatable};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::sym;
use kerf_model::nodepool::NodePool;
use kerf_model::requirement::Requirement;
use std::sync::Arc;

fn on() -> Asked {
    Asked {
        settings: Settings {
            spot_to_spot: true,
            ..Settings::default()
        },
        ..Asked::default()
    }
}

/// A spot node of the dearest of `count` + 1 types, with a small pod; cheaper types are dearer the higher their number, and listed
/// dearest first.
fn spot_node(count: usize, change: impl FnOnce(&mut NodePool)) -> Cluster {
    let mut cluster = Cluster::new();
    let mut types = vec![cluster.kind("own", 4000, 10.0)];
    for number in (0..count).rev() {
        types.push(cluster.kind(&format!("t{number:02}"), 2000, 1.0 + number as f64 / 10.0));
    }
    cluster.pool("a", |pool| {
        pool.catalogue = Ok(Arc::new(Catalogue { types }));
        change(pool);
    });
    cluster.of_kind("a-1", "own", |node| set_label(node, sym::CAPACITY_TYPE, sym::SPOT));
    cluster.bound("a-1", "p", |_| {});
    cluster
}

fn asked(asked: &Asked, cluster: &Cluster) -> Result<Command, Unconsolidatable> {
    asked.propose(cluster, &["a-1"])
}

// DIS-143
#[test]
fn it_takes_the_gate_and_deletions_do_not() {
    let mut cluster = spot_node(20, |_| {});
    assert_eq!(
        text(&asked(&Asked::default(), &cluster)),
        "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
    );
    cluster.of_kind("a-2", "t00", |_| {});
    assert_eq!(text(&asked(&Asked::default(), &cluster)), "delete: [a-1]");
}

// DIS-133, DIS-144, DIS-146, DIS-148, DIS-149
#[test]
fn the_fifteen_cheapest_are_offered_wherever_they_are_listed() {
    let cluster = spot_node(20, |_| {});
    let command = asked(&on(), &cluster).unwrap();
    let replacement = &command.replacements[0];
    let expected: Vec<String> = (0..15).map(|number| format!("t{number:02}")).collect();
    assert_eq!(types_of(&cluster, replacement), expected);
    assert_eq!(
        replacement
            .requirements
            .get(sym::CAPACITY_TYPE)
            .and_then(Requirement::single),
        Some(sym::SPOT)
    );
    let text_of = |count| text(&asked(&on(), &spot_node(count, |_| {})));
    assert_eq!(text_of(15), "replace: [a-1] -> [1 replacement]");
    // DIS-147: with fourteen cheaper ones it is itself among the fifteen cheapest.
    assert_eq!(
        text_of(14),
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got 14"
    );
    assert_eq!(text_of(0), "Can't replace with a cheaper node");
}

// DIS-144
#[test]
fn what_cannot_be_had_as_spot_is_no_choice() {
    let mut cluster = spot_node(16, |_| {});
    let pool = Arc::make_mut(&mut cluster.snapshot.pools[0]);
    let mut types = pool.catalogue.as_ref().unwrap().types.clone();
    for kind in types.iter_mut().skip(1).take(3) {
        kind.offerings[1].available = false;
    }
    pool.catalogue = Ok(Arc::new(Catalogue { types }));
    assert_eq!(
        text(&asked(&on(), &cluster)),
        "SpotToSpotConsolidation requires 15 cheaper instance type options than the current candidate to consolidate, got 13"
    );
}

fn at_least(count: u32) -> impl FnOnce(&mut NodePool) {
    move |pool| {
        let types = Requirement::exists(sym::INSTANCE_TYPE).with_min_values(Some(count));
        pool.requirements.replace(types);
    }
}

// DIS-148, SCH-277
#[test]
fn min_values_may_ask_for_more_than_fifteen() {
    let offered = |least, count| {
        let outcome = asked(&on(), &spot_node(count, at_least(least)));
        outcome.map(|command| command.replacements[0].types.len())
    };
    assert_eq!(offered(16, 20), Ok(16));
    assert_eq!(offered(10, 20), Ok(15));
    assert!(matches!(offered(16, 15), Err(Unconsolidatable::MinValues(_))));
}

// DIS-145
#[test]
fn several_nodes_need_no_choice() {
    let mut cluster = spot_node(1, |_| {});
    cluster.of_kind("a-2", "own", |node| set_label(node, sym::CAPACITY_TYPE, sym::SPOT));
    cluster.bound("a-2", "q", |_| {});
    let command = on().propose(&cluster, &["a-1", "a-2"]).unwrap();
    assert_eq!(
        types_of(&cluster, &command.replacements[0]),
        ["t00", "own"],
        "one of their own is cheaper than both"
    );
}

// DIS-170
#[test]
fn a_mixed_set_goes_by_the_general_rule() {
    let mut cluster = spot_node(1, |_| {});
    cluster.of_kind("a-2", "own", |_| {});
    cluster.bound("a-2", "q", |_| {});
    let mixed = Asked::default().propose(&cluster, &["a-1", "a-2"]);
    assert_eq!(text(&mixed), "replace: [a-1, a-2] -> [1 replacement]");
}

// DIS-133
#[test]
fn spot_nodes_go_by_the_general_rule_where_no_spot_node_may_come() {
    let on_demand_only = |kind: &str, cpu: i64| {
        let mut cluster = Cluster::new();
        let types = [("nano", 500, 0.02), ("small", 2000, 0.1), ("large", 8000, 0.4)];
        cluster.typed("a", &types, |_| {});
        cluster.of_kind("a-1", kind, |node| set_label(node, sym::CAPACITY_TYPE, sym::SPOT));
        cluster.bound("a-1", "p", sized(cpu));
        cluster
    };
    // A large one costs 0.2 as spot, and a small one 0.05.
    let cluster = on_demand_only("large", 1800);
    let command = asked(&Asked::default(), &cluster).unwrap();
    assert_eq!(types_of(&cluster, &command.replacements[0]), ["small"]);
    let said = text(&asked(&Asked::default(), &on_demand_only("small", 1800)));
    assert_eq!(said, "Can't replace with a cheaper node");
}
