//! Section 8.6: whether a command is still valid after the wait.

use crate::fixture::{Asked, Cluster, budget, now, sized, text};
use kerf_disruption::{Allowance, Command, Invalid, still_candidates, still_fits, underutilized};
use kerf_model::budget::DisruptionReason;
use kerf_model::instance_type::Catalogue;
use kerf_model::pod::DoNotDisrupt;
use std::sync::Arc;

/// Two nodes whose pods fit on a third; the first two go.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.typed("a", &[("nano", 700, 0.02), ("small", 2000, 0.1)], |_| {});
    for (name, cpu) in [("a-1", 300), ("a-2", 300), ("a-3", 1300)] {
        cluster.of_kind(name, "small", |_| {});
        cluster.bound(name, &format!("p-{name}"), sized(cpu));
    }
    cluster
}

/// One dear node whose pods fit on a cheaper machine.
fn replaced() -> Cluster {
    let mut cluster = Cluster::new();
    cluster.typed(
        "a",
        &[("nano", 700, 0.02), ("small", 2000, 0.1), ("large", 8000, 0.4)],
        |_| {},
    );
    cluster.of_kind("a-1", "large", |_| {});
    cluster.bound("a-1", "p", sized(300));
    cluster
}

fn command(cluster: &Cluster, names: &[&str]) -> Command {
    Asked::default().propose(cluster, names).unwrap()
}

/// The result of validating a command in the cluster as it is now.
fn after(cluster: &Cluster, command: &Command, nominated: &[&str]) -> Result<(), Invalid> {
    let (eligible, _) = underutilized(&cluster.snapshot, &cluster.free());
    let mut allowance = Allowance::new(&cluster.snapshot, DisruptionReason::Underutilized, now());
    let nominated = |name: &str| nominated.contains(&name);
    let now_candidates = still_candidates(command, &eligible, &nominated, &mut allowance)?;
    Asked::default().with(cluster, |consolidation, _| {
        still_fits(command, &now_candidates, consolidation.what_if)
    })
}

// DIS-181, DIS-182, DIS-184, DIS-188, DIS-189, DIS-190, DIS-191
#[test]
fn what_happens_meanwhile_may_end_it() {
    let going = command(&cluster(), &["a-1", "a-2"]);
    assert_eq!(going.short(), "delete: [a-1, a-2]");
    assert_eq!(after(&cluster(), &going, &[]), Ok(()));
    let table: [(&str, fn(&mut Cluster), Result<(), Invalid>); 7] = [
        (
            "a protected pod came",
            |cluster| {
                cluster.bound("a-1", "new", |pod| pod.do_not_disrupt = DoNotDisrupt::Always);
            },
            Err(Invalid::Churn(1)),
        ),
        (
            "a budget of pods closed",
            |cluster| cluster.pdb("pdb", |_| {}),
            Err(Invalid::Churn(2)),
        ),
        (
            "a pod event",
            |cluster| {
                Arc::make_mut(&mut cluster.snapshot.nodes[0]).lifecycle.consolidatable = false;
            },
            Err(Invalid::Churn(1)),
        ),
        (
            "the pool's budget closed",
            |cluster| {
                Arc::make_mut(&mut cluster.snapshot.pools[0]).disruption.budgets = vec![budget("1")];
            },
            Err(Invalid::Budget),
        ),
        (
            "a pod took the place",
            |cluster| cluster.bound("a-3", "new", sized(600)),
            Err(Invalid::Changed),
        ),
        (
            "a pod came that fits as well",
            |cluster| cluster.bound("a-1", "new", sized(50)),
            Ok(()),
        ),
        (
            "the node was renewed",
            |cluster| {
                Arc::make_mut(&mut cluster.snapshot.nodes[0]).lifecycle.claim_uid = Some("another".into());
            },
            Err(Invalid::Churn(1)),
        ),
    ];
    for (what, change, expected) in table {
        let mut changed = cluster();
        change(&mut changed);
        assert_eq!(after(&changed, &going, &[]), expected, "{what}");
    }
    assert_eq!(after(&cluster(), &going, &["a-2"]), Err(Invalid::Nominated));
    assert_eq!(after(&cluster(), &going, &["a-3"]), Ok(()));
}

// DIS-183
#[test]
fn pods_without_a_place_end_it() {
    let going = command(&cluster(), &["a-1", "a-2"]);
    let mut changed = cluster();
    changed.bound("a-1", "huge", sized(9000));
    let Err(Invalid::Unplaceable(sentence)) = after(&changed, &going, &[]) else {
        panic!("it should not stand");
    };
    assert!(
        sentence.starts_with("not all pods would schedule, ns/huge => "),
        "{sentence}"
    );
}

// DIS-184, DIS-185
#[test]
fn a_replacement_stands_while_its_types_are_among_those_that_would_do() {
    let going = command(&replaced(), &["a-1"]);
    assert_eq!(going.short(), "replace: [a-1] -> [1 replacement]");
    assert_eq!(after(&replaced(), &going, &[]), Ok(()));
    let mut more = replaced();
    more.bound("a-1", "more", sized(500));
    assert_eq!(
        after(&more, &going, &[]),
        Err(Invalid::Changed),
        "nano would not do any more"
    );
    let mut room = replaced();
    room.of_kind("a-2", "small", |_| {});
    assert_eq!(after(&room, &going, &[]), Err(Invalid::Changed), "none would be needed");
    // No price is compared: that the replacement would be dearer by now is not asked.
    let mut cheap = replaced();
    Arc::make_mut(&mut cheap.snapshot.nodes[0]).price = kerf_model::price::Price::from_per_hour(0.001);
    assert_eq!(after(&cheap, &going, &[]), Ok(()));
    let mut gone = replaced();
    gone.typed("a", &[("nano", 700, 0.02)], |_| {});
    assert_eq!(after(&gone, &going, &[]), Err(Invalid::Churn(1)), "its type is gone");
    let mut several = replaced();
    several.bound("a-1", "more", sized(600));
    let pool = Arc::make_mut(&mut several.snapshot.pools[0]);
    let mut types = pool.catalogue.as_ref().unwrap().types.clone();
    for kind in &mut types[1..] {
        kind.offerings
            .iter_mut()
            .for_each(|offering| offering.available = false);
    }
    pool.catalogue = Ok(Arc::new(Catalogue { types }));
    let alone = text(&Asked::default().propose(&several, &["a-1"]));
    assert_eq!(alone, "Can't remove without creating 2 candidates");
    assert_eq!(
        after(&several, &going, &[]),
        Err(Invalid::Changed),
        "two would be needed"
    );
}

// DIS-188, DIS-189
#[test]
fn reasons_and_counts() {
    let table = [
        (Invalid::Churn(1), "churn", 3),
        (Invalid::Nominated, "budget", 3),
        (Invalid::Budget, "budget", 3),
        (Invalid::Unplaceable(String::new()), "scheduling", 0),
        (Invalid::Changed, "scheduling", 0),
        (
            Invalid::NoSimulation(kerf_disruption::SimulationError::NoPools),
            "unknown",
            0,
        ),
    ];
    for (invalid, reason, failed) in table {
        assert_eq!((invalid.reason(), invalid.failed(3)), (reason, failed));
    }
    assert_eq!(Invalid::Churn(2).to_string(), "2 candidates are no longer valid");
    assert_eq!(
        Invalid::Nominated.to_string(),
        "a candidate was nominated during validation"
    );
    assert_eq!(
        Invalid::Budget.to_string(),
        "a candidate can no longer be disrupted without violating budgets"
    );
    assert_eq!(
        Invalid::Changed.to_string(),
        "scheduling simulation produced new results"
    );
}
