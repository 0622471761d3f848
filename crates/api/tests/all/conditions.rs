//! What happens to conditions when they are read, set and removed.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kerf_api::conditions::node_claim::{
    CONSISTENT_STATE_FOUND, CONSOLIDATABLE, DRIFTED, INITIALIZED, LAUNCHED, REGISTERED,
};
use kerf_api::conditions::{
    READY, VALIDATION_SUCCEEDED, node_pool::NODE_CLASS_READY, node_pool::NODE_REGISTRATION_HEALTHY,
};
use kerf_api::{ConditionSet, Conditioned, KwokNodeClass, NodeClaim, NodeOverlay, NodePool};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn claim() -> NodeClaim {
    let mut claim = NodeClaim::default();
    claim.metadata.generation = Some(1);
    claim.metadata.creation_timestamp = Some(Time(at(0)));
    claim
}

/// `Type=Status Reason "Message" @second g<generation>`, in stored order.
fn print(object: &impl Conditioned) -> Vec<String> {
    let conditions = object.conditions().iter();
    conditions
        .map(|c| {
            let second = c.transitioned().as_second() - at(0).as_second();
            let generation = c.observed_generation.unwrap_or(0);
            format!(
                "{}={} {} {:?} @{second} g{generation}",
                c.type_,
                c.status,
                c.reason(),
                c.message()
            )
        })
        .collect()
}

fn types(object: &impl Conditioned) -> Vec<&str> {
    object
        .conditions()
        .iter()
        .map(|condition| condition.type_.as_str())
        .collect()
}

#[test]
fn missing_conditions_appear_as_unknown() {
    // API-178, API-179, API-231, API-111, LIF-006
    let mut claim = claim();
    ConditionSet::new(&mut claim, at(5));
    let waiting = "Unknown AwaitingReconciliation \"object is awaiting reconciliation\"";
    assert_eq!(
        print(&claim),
        [
            format!("Launched={waiting} @0 g1"),
            format!("Registered={waiting} @0 g1"),
            format!("Initialized={waiting} @0 g1"),
            "Ready=Unknown ReconcilingDependents \"Launched=Unknown, Registered=Unknown, Initialized=Unknown\" @5 g1"
                .to_owned(),
        ]
    );
    // API-178, API-186: without dependents the root keeps its first reason.
    let mut class = KwokNodeClass::new("default");
    ConditionSet::new(&mut class, at(5));
    assert_eq!(print(&class), [format!("Ready={waiting} @5 g0")]);
}

#[test]
fn roots_and_dependents() {
    // API-186
    let (mut pool, mut overlay) = (pool(), NodeOverlay::default());
    ConditionSet::new(&mut pool, at(0));
    // LIF-007
    assert_eq!(types(&pool), [VALIDATION_SUCCEEDED, NODE_CLASS_READY, READY]);
    let mut set = ConditionSet::new(&mut pool, at(1));
    set.set_true(VALIDATION_SUCCEEDED);
    set.set_true(NODE_CLASS_READY);
    set.set_false(NODE_REGISTRATION_HEALTHY, "RegistrationFailed", "");
    assert!(set.is_true(READY), "it is of no account");
    ConditionSet::new(&mut overlay, at(0));
    assert_eq!(types(&overlay), [VALIDATION_SUCCEEDED, READY]);
}

fn pool() -> NodePool {
    kerf_api::decode(&serde_json::json!({
        "metadata": {"name": "p", "generation": 1},
        "spec": {"template": {"spec": {
            "requirements": [], "nodeClassRef": {"group": "g", "kind": "K", "name": "n"},
        }}},
    }))
    .unwrap()
}

#[test]
fn a_healthy_claim_shows_its_history() {
    // API-120, API-182, API-183, API-185, API-111, LIF-009, LIF-014
    let mut claim = claim();
    for (second, type_) in [
        (1, LAUNCHED),
        (2, CONSISTENT_STATE_FOUND),
        (3, REGISTERED),
        (4, INITIALIZED),
        (5, CONSOLIDATABLE),
    ] {
        assert!(ConditionSet::new(&mut claim, at(second)).set_true(type_));
    }
    assert_eq!(
        print(&claim),
        [
            "Launched=True Launched \"\" @1 g1",
            "ConsistentStateFound=True ConsistentStateFound \"\" @2 g1",
            "Registered=True Registered \"\" @3 g1",
            "Initialized=True Initialized \"\" @4 g1",
            "Consolidatable=True Consolidatable \"\" @5 g1",
            "Ready=True Ready \"\" @4 g1",
        ]
    );
    // LIF-006: a condition that the root does not depend on does not change it.
    let independent = [
        DRIFTED,
        "DisruptionReason",
        "Drained",
        "VolumesDetached",
        "InstanceTerminating",
        CONSISTENT_STATE_FOUND,
        CONSOLIDATABLE,
    ];
    for type_ in independent {
        ConditionSet::new(&mut claim, at(6)).set_false(type_, "No", "");
        assert!(claim.condition_is_true(READY), "{type_}");
    }
}

#[test]
fn times_follow_the_status_only() {
    // API-180, LIF-010
    let mut claim = claim();
    ConditionSet::new(&mut claim, at(1)).set_unknown(LAUNCHED, "LaunchFailed", "no capacity");
    assert_eq!(claim.condition(LAUNCHED).unwrap().transitioned(), at(0));
    let mut set = ConditionSet::new(&mut claim, at(9));
    assert!(
        !set.set_unknown(LAUNCHED, "LaunchFailed", "no capacity"),
        "nothing changes"
    );
    assert!(set.set_false(LAUNCHED, "LaunchFailed", "no capacity"));
    assert_eq!(set.get(LAUNCHED).unwrap().transitioned(), at(9));
    claim.metadata.generation = Some(2);
    assert!(ConditionSet::new(&mut claim, at(10)).set_false(LAUNCHED, "LaunchFailed", "no capacity"));
    let launched = claim.condition(LAUNCHED).unwrap();
    assert_eq!(
        (launched.transitioned(), launched.observed_generation),
        (at(9), Some(2))
    );
}

#[test]
fn ready_names_what_is_missing() {
    // API-184, API-087
    let mut pool = pool();
    let mut set = ConditionSet::new(&mut pool, at(1));
    set.set_true(VALIDATION_SUCCEEDED);
    assert_eq!(
        print(&pool)[2],
        "Ready=Unknown ReconcilingDependents \"NodeClassReady=Unknown\" @1 g1"
    );
    let mut set = ConditionSet::new(&mut pool, at(2));
    set.set_false(VALIDATION_SUCCEEDED, "NodePoolValidationFailed", "x");
    let ready = "Ready=False UnhealthyDependents \"ValidationSucceeded=False, NodeClassReady=Unknown\" @2 g1";
    assert_eq!(print(&pool)[2], ready);
    // API-183, LIF-013: a finding about an older generation does not count.
    let mut set = ConditionSet::new(&mut pool, at(3));
    set.set_true(VALIDATION_SUCCEEDED);
    set.set_true(NODE_CLASS_READY);
    assert!(set.is_true(READY));
    pool.metadata.generation = Some(2);
    ConditionSet::new(&mut pool, at(4)).set_true(VALIDATION_SUCCEEDED);
    assert_eq!(
        print(&pool)[2],
        "Ready=Unknown ReconcilingDependents \"NodeClassReady=True\" @4 g2"
    );
    ConditionSet::new(&mut pool, at(5)).set_true(NODE_CLASS_READY);
    assert!(pool.condition_is_true(READY));
}

#[test]
fn conditions_of_a_deleted_object_follow_its_generation() {
    // API-181, LIF-011
    let mut claim = claim();
    ConditionSet::new(&mut claim, at(1)).set_true(LAUNCHED);
    claim.metadata.generation = Some(2);
    ConditionSet::new(&mut claim, at(2)).set_true(CONSOLIDATABLE);
    assert_eq!(claim.condition(LAUNCHED).unwrap().observed_generation, Some(1));
    // A set that changes nothing raises nothing.
    let mut unmoved = claim.clone();
    unmoved.metadata.deletion_timestamp = Some(Time(at(3)));
    assert!(!ConditionSet::new(&mut unmoved, at(3)).set_true(CONSOLIDATABLE));
    assert_eq!(unmoved.condition(LAUNCHED).unwrap().observed_generation, Some(1));
    claim.metadata.deletion_timestamp = Some(Time(at(3)));
    ConditionSet::new(&mut claim, at(3)).set_true("Drained");
    assert!(
        claim
            .conditions()
            .iter()
            .all(|condition| condition.observed_generation == Some(2))
    );
}

#[test]
fn removal() {
    // API-182, LIF-014
    let mut claim = claim();
    let mut set = ConditionSet::new(&mut claim, at(1));
    set.set_true(DRIFTED);
    assert_eq!(set.remove(CONSOLIDATABLE), Ok(false));
    assert_eq!(set.remove(DRIFTED), Ok(true));
    assert_eq!(
        set.remove(LAUNCHED).unwrap_err().to_string(),
        "condition Launched cannot be removed because Ready depends on it; set it to False or Unknown"
    );
    assert!(set.remove(READY).is_err());
    assert_eq!(types(&claim), [INITIALIZED, LAUNCHED, READY, REGISTERED]);
}
