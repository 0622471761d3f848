//! Commands have to save something for every pod they move, and more if such a move did not last (`docs/deviations.md` at DIS-119 and
//! DIS-134).

use crate::fixture::{Asked, Cluster, ago, sized};
use kerf_disruption::{Command, Settings};
use kerf_model::in_flight::{MachineKind, UndoneMove};
use kerf_model::price::Price;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Two nodes; the pod of either fits on the other.
fn before() -> Cluster {
    let mut cluster = Cluster::new();
    for (name, cpu) in [("a-1", 300), ("a-2", 1300)] {
        cluster.node(name, |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(cpu));
    }
    cluster
}

fn per_hour(dollars: f64) -> Price {
    Price::from_per_hour(dollars).unwrap()
}

/// What pods like those of a-1 and a-2 were moved onto, and what the next such move must save more than for each pod.
fn undone_move(cluster: &Cluster, destination: &str, surcharge_per_pod: f64) -> UndoneMove {
    let moved = &cluster.snapshot.nodes[0].pods[0];
    UndoneMove {
        namespace: Arc::clone(&moved.namespace),
        shape: Arc::clone(&moved.shape),
        destinations: Arc::new(BTreeSet::from([MachineKind {
            pool: Some(cluster.s("a")),
            instance_type: Some(cluster.s(destination)),
        }])),
        surcharge_per_pod: per_hour(surcharge_per_pod),
        until: ago(-60),
    }
}

// DIS-119 as docs/deviations.md has it
#[test]
fn a_move_like_an_undone_one_has_to_save_more_than_that_cost() {
    let single = |change: &dyn Fn(&mut UndoneMove), destination: &str, surcharge: f64| {
        let cluster = before();
        let mut undone = undone_move(&cluster, destination, surcharge);
        change(&mut undone);
        let asked = Asked {
            undone: vec![undone],
            ..Asked::default()
        };
        let found = asked.single(&cluster);
        (
            found.command.map(|command| command.short()),
            found.staying.first().map(|staying| staying.why.clone()),
        )
    };
    let deleted = (Some("delete: [a-1]".to_owned()), None);
    let (command, why) = single(&|_| {}, "small", 0.1);
    assert_eq!(
        command.as_deref(),
        Some("delete: [a-2]"),
        "the pod of a-2 was never moved"
    );
    let why = why.unwrap();
    assert_eq!((why.code(), why.is_event()), ("MoveUndone", true));
    assert_eq!(
        why.message(),
        "Pods like its own were moved before and needed a new node again; until 2026-01-01T12:01:00Z moving them again must save more than \
         $0.1000 per hour, not $0.1000"
    );
    assert_eq!(single(&|_| {}, "small", 0.05), deleted, "it saves more");
    assert_eq!(
        single(&|_| {}, "large", 0.1),
        deleted,
        "it goes to another kind of machine"
    );
    assert_eq!(
        single(&|undone| undone.until = ago(0), "small", 0.1),
        deleted,
        "it is over"
    );
    assert_eq!(
        single(&|undone| undone.namespace = "other".into(), "small", 0.1),
        deleted
    );
}

/// Ten nodes with one small pod each.
fn ten() -> Cluster {
    let mut cluster = Cluster::new();
    for at in 0..10 {
        let name = format!("a-{at}");
        cluster.node(&name, |_| {});
        cluster.bound(&name, &format!("p-{at}"), sized(100));
    }
    cluster
}

#[test]
fn nodes_that_together_save_far_more_than_undone_moves_cost_go() {
    let cluster = ten();
    let removed = |surcharge_per_pod: f64| {
        let asked = Asked {
            undone: vec![undone_move(&cluster, "small", surcharge_per_pod)],
            ..Asked::default()
        };
        asked
            .multi(&cluster)
            .command
            .map_or(0, |command| command.candidates.len())
    };
    assert_eq!(
        removed(0.09),
        10,
        "one spot node replaces them and saves $0.95, which is more than $0.90"
    );
    assert_eq!(removed(0.1), 0);
}

// DIS-134 as docs/deviations.md has it
#[test]
fn a_command_saves_enough_for_every_pod_it_moves() {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("small", 2000, 0.1), ("tiny", 1000, 0.09)], |_| {});
    cluster.of_kind("a-1", "small", |_| {});
    for at in 0..9 {
        cluster.bound("a-1", &format!("p-{at}"), sized(100));
    }
    let replaced = |cluster: &Cluster, savings_per_pod: &str| {
        let asked = Asked {
            settings: Settings {
                savings_per_pod: savings_per_pod.parse().expect("an amount"),
                min_savings: "0".parse().expect("a percentage"),
                ..Settings::default()
            },
            ..Asked::default()
        };
        asked.single(cluster).command.map(|command| command.short())
    };
    let replacement = Some("replace: [a-1] -> [1 replacement]".to_owned());
    assert_eq!(replaced(&cluster, "0.001"), replacement);
    for at in 9..11 {
        cluster.bound("a-1", &format!("p-{at}"), sized(0));
    }
    assert_eq!(replaced(&cluster, "0.001"), None, "a cent for eleven pods");
    assert_eq!(replaced(&cluster, "0"), replacement, "as upstream has it");
}

// DIS-134 as docs/deviations.md has it
#[test]
fn replacements_save_a_part_of_the_price() {
    let mut cluster = Cluster::new();
    let sizes = [("small", 2000, 0.1), ("tiny", 1000, 0.091), ("tinier", 900, 0.089)];
    cluster.typed("a", &sizes, |_| {});
    cluster.of_kind("a-1", "small", |_| {});
    cluster.bound("a-1", "p", sized(800));
    let asked = |percent: &str| Asked {
        settings: Settings {
            min_savings: percent.parse().expect("a percentage"),
            ..Settings::default()
        },
        ..Asked::default()
    };
    let types = |percent| {
        let found = asked(percent).single(&cluster);
        let why = found.staying.first().map(|staying| staying.why.to_string());
        let options = |command: Command| command.replacements[0].types.len();
        (found.command.map(options), why)
    };
    assert_eq!(types("0"), (Some(2), None), "as upstream has it");
    assert_eq!(Settings::default().min_savings.to_string(), "10");
    assert_eq!(types("10"), (Some(1), None), "tiny would save less");
    let why = "removing it saves $0.0110 per hour; moving its pods must save $0.0120";
    assert_eq!(types("12").1.as_deref(), Some(why));
    // Nothing replaces a node whose pods fit elsewhere.
    cluster.of_kind("a-2", "small", |_| {});
    cluster.bound("a-2", "q", sized(1100));
    let deleted = asked("99").single(&cluster).command.map(|command| command.short());
    assert_eq!(deleted.as_deref(), Some("delete: [a-1]"));
}

// DIS-134 as docs/deviations.md has it
#[test]
fn nodes_that_are_joined_save_what_they_cost_besides_their_price() {
    let joined = |price_of_two: f64, overhead: &str| {
        let mut cluster = Cluster::new();
        cluster.typed("a", &[("one", 1000, 0.1), ("two", 2000, price_of_two)], |_| {});
        for name in ["a-1", "a-2"] {
            cluster.of_kind(name, "one", |_| {});
            cluster.bound(name, &format!("p-{name}"), sized(800));
        }
        let mut asked = Asked::default();
        asked.solver.node_overhead = overhead.parse().expect("an amount");
        asked.multi(&cluster).command.map(|command| command.short())
    };
    let replaced = Some("replace: [a-1, a-2] -> [1 replacement]".to_owned());
    // They must save two cents of their price, of which one is saved.
    assert_eq!(joined(0.19, "0"), None);
    assert_eq!(joined(0.19, "0.009"), None);
    assert_eq!(joined(0.19, "0.011"), replaced);
    assert_eq!(joined(0.2, "1"), None, "no part of the price is saved");
}
