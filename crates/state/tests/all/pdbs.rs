//! Pod disruption budgets and namespaces.

use crate::fixture::{mirror, now, yaml};
use kerf_model::selector::LabelSelector;
use kerf_model::snapshot::Pdb;
use kerf_state::lean::{LeanNamespace, LeanPdb};
use std::sync::Arc;

fn pdb(spec: &str) -> Arc<Pdb> {
    let mut mirror = mirror();
    mirror.apply(yaml::<LeanPdb>(&format!(
        "{{metadata: {{name: p, namespace: shop}}, spec: {spec}, status: {{disruptionsAllowed: 2}}}}"
    )));
    Arc::clone(&mirror.snapshot(now()).pdbs[0])
}

// SCH-029, DIS-069
#[test]
fn which_budgets_never_allow_an_eviction() {
    let table = [
        ("{maxUnavailable: 0}", true),
        ("{maxUnavailable: '0%'}", true),
        ("{minAvailable: '100%'}", true),
        ("{minAvailable: 100}", false),
        ("{maxUnavailable: 1}", false),
        ("{minAvailable: '99%'}", false),
        ("{}", false),
    ];
    for (spec, expected) in table {
        assert_eq!(pdb(spec).blocks_always, expected, "{spec}");
    }
}

// DIS-063
#[test]
fn a_missing_selector_matches_nothing_and_an_empty_one_everything() {
    assert_eq!(pdb("{}").selector, LabelSelector::Nothing);
    assert_eq!(pdb("{selector: {}}").selector, LabelSelector::All(Vec::new()));
}

// SCH-030, DIS-065, DIS-066
#[test]
fn what_else_is_read() {
    let found = pdb("{unhealthyPodEvictionPolicy: AlwaysAllow}");
    assert!(
        found.always_allow_unhealthy && !pdb("{unhealthyPodEvictionPolicy: IfHealthyBudget}").always_allow_unhealthy
    );
    assert_eq!(
        (&*found.namespace, &*found.name, found.disruptions_allowed),
        ("shop", "p", 2)
    );
}

// SCH-193
#[test]
fn namespaces_are_known_by_their_labels() {
    let mut mirror = mirror();
    mirror.apply(yaml::<LeanNamespace>("{metadata: {name: b, labels: {team: x}}}"));
    mirror.apply(yaml::<LeanNamespace>("{metadata: {name: a}}"));
    let snapshot = mirror.snapshot(now());
    let names: Vec<&str> = snapshot.namespaces.iter().map(|(name, _)| &**name).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(snapshot.namespaces[1].1.get("team").map(|value| &**value), Some("x"));
}
