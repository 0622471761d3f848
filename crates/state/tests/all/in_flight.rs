//! What no API object says: when it ends, and that questions do not change it.

use crate::fixture::{claim, mirror, names, node, now, pending, pod};
use jiff::SignedDuration;
use kerf_api::NodeClaim;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_state::lean::LeanNode;
use kerf_state::{Kind, Mirror, Now, PodTimes, Stored};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn at(seconds: u64) -> Now {
    Now {
        wall: now() + SignedDuration::from_secs(i64::try_from(seconds).unwrap()),
        uptime: Duration::from_secs(seconds),
    }
}

fn unlaunched(mirror: &Mirror) -> usize {
    mirror.sync_report().unlaunched.len()
}

// SCH-075
#[test]
fn planning_waits_45_seconds_for_a_claim_that_is_not_launched() {
    let mut mirror = mirror();
    mirror.created(claim("c", None, ""));
    mirror.expire(at(100));
    mirror.expire(at(144));
    assert_eq!(unlaunched(&mirror), 1);
    mirror.expire(at(145));
    assert_eq!(unlaunched(&mirror), 0);
    assert_eq!(names(&mirror.snapshot(now())), ["c"], "it is a machine on its way");
}

// SCH-075
#[test]
fn planning_does_not_wait_for_a_claim_that_was_refused() {
    let mut mirror = mirror();
    let refused = |reason: &str| {
        let mut claim = claim("c", None, "");
        let condition = serde_json::json!({
            "type": "Launched", "status": "Unknown", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let status = claim.status.get_or_insert_default();
        status.conditions.push(serde_json::from_value(condition).unwrap());
        claim
    };
    mirror.apply(refused("AwaitingReconciliation"));
    mirror.expire(at(1));
    assert_eq!(unlaunched(&mirror), 1);
    mirror.apply(refused("LaunchFailed"));
    assert_eq!(unlaunched(&mirror), 1, "a question changes nothing");
    mirror.expire(at(2));
    assert_eq!(unlaunched(&mirror), 0);
}

// SCH-072
#[test]
fn only_expiry_ends_a_nomination() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    mirror.snapshot(at(0).wall);
    let until = at(20).wall;
    mirror.nominate("n", until);
    let nominated = |mirror: &mut Mirror, when: Now| {
        let snapshot = mirror.snapshot(when.wall);
        (snapshot.node("n").unwrap().nominated_until, snapshot)
    };
    let (before, first) = nominated(&mut mirror, at(0));
    assert_eq!(before, Some(until));
    let (after, second) = nominated(&mut mirror, at(60));
    assert_eq!(after, Some(until), "a snapshot ends nothing");
    assert!(Arc::ptr_eq(&first, &second), "time alone makes no other snapshot");
    assert!(mirror.pool("p", at(60).wall).is_none());
    assert_eq!(nominated(&mut mirror, at(60)).0, Some(until));
    mirror.expire(at(60));
    assert_eq!(nominated(&mut mirror, at(60)).0, None);
}

#[test]
fn a_launch_locks_its_pods_until_it_is_unlocked() {
    let mut mirror = mirror();
    for name in ["a", "b"] {
        mirror.apply(pending(name, "{}"));
    }
    let [a, b] = ["a", "b"].map(|name| mirror.pod("default", name).unwrap());
    let none = BTreeSet::new();
    let locked = mirror.lock_launch([&a], &none).unwrap();
    assert!(mirror.lock_launch([&a, &b], &none).is_none());
    assert!(
        mirror.lock_launch([&b], &none).is_some(),
        "a refused lock locks nothing"
    );
    mirror.unlock_launch(&locked);
    let planned = |times: &mut PodTimes| times.planned_onto("default", "a", &"c".into());
    mirror.times_of(&a).map(planned).unwrap();
    mirror.created(claim("c", None, ""));
    assert!(mirror.lock_launch([&a], &none).is_none(), "it is planned onto a claim");
    assert!(
        mirror.lock_launch([&a], &["c"].into()).is_some(),
        "the caller knew the claim"
    );
}

#[test]
fn pods_that_no_scheduler_looked_at_are_untried_until_they_are_promised_or_tried() {
    let mut mirror = mirror();
    mirror.apply(pod("new", "{}", "{}"));
    mirror.apply(pending("tried", "{}"));
    mirror.created(claim("c", None, ""));
    let shown = |mirror: &mut Mirror| {
        let snapshot = mirror.snapshot(now());
        let names = |pods: &[Arc<Pod>]| {
            pods.iter()
                .map(|pod| pod.name.to_string())
                .collect::<Vec<_>>()
                .join(" ")
        };
        (names(&snapshot.pending), names(&snapshot.untried))
    };
    let both = |pending: &str, untried: &str| (pending.to_owned(), untried.to_owned());
    assert_eq!(shown(&mut mirror), both("tried", "new"));
    let new = mirror.pod("default", "new").unwrap();
    assert!(mirror.promise("c", &[new], Resources::new()));
    assert_eq!(shown(&mut mirror), both("tried", ""));
    mirror.delete(&claim("c", None, ""));
    assert_eq!(shown(&mut mirror), both("tried", "new"), "the claim is gone");
    mirror.apply(pending("new", "{}"));
    assert_eq!(shown(&mut mirror), both("new tried", ""));
}

#[test]
fn an_older_state_of_an_object_changes_nothing() {
    let mut mirror = mirror();
    let at = |version: &str, id: Option<&str>| {
        let mut claim = claim("c", id, "");
        claim.metadata.resource_version = Some(version.to_owned());
        claim
    };
    mirror.apply(at("5", Some("cloud://n")));
    mirror.apply(at("4", None));
    assert_eq!(mirror.claims_by_provider_id("cloud://n").len(), 1);
    assert!(!mirror.wrote(at("5", None)) && mirror.wrote(at("6", None)));
    assert!(mirror.claims_by_provider_id("cloud://n").is_empty());
    mirror.delete(&at("9", None));
    assert!(!mirror.created(at("8", None)), "the watch is past it");
    assert!(mirror.created(at("10", None)));
}

#[test]
fn written_objects_are_kept_without_managed_fields() {
    let mut mirror = mirror();
    let mut claim = claim("c", None, "");
    claim.metadata.managed_fields = Some(Vec::new());
    assert!(mirror.created(claim));
    let kept = NodeClaim::named(&mirror, "c").unwrap();
    assert_eq!(kept.metadata.managed_fields, None);
}

#[test]
fn a_list_older_than_a_write_takes_nothing_back() {
    let mut mirror = mirror();
    let at = |version: &str| {
        let mut claim = claim("c", None, "");
        claim.metadata.resource_version = Some(version.to_owned());
        claim
    };
    mirror.expect_list(Kind::NodeClaim);
    assert!(mirror.created(at("3")));
    let report = mirror.reset(Vec::<NodeClaim>::new());
    assert_eq!((report.vanished.len(), mirror.count(Kind::NodeClaim)), (0, 1));
    mirror.expect_list(Kind::NodeClaim);
    let report = mirror.reset(Vec::<NodeClaim>::new());
    assert_eq!(report.vanished, ["c"], "the next list was asked for afterwards");
    assert!(mirror.trustworthy().is_err());
    assert!(mirror.suspects(Kind::NodeClaim) && !mirror.suspects(Kind::Node));
    mirror.reset(Vec::<LeanNode>::new());
    assert_eq!(mirror.compared(Kind::NodeClaim, true, Duration::ZERO), None);
    assert!(
        mirror
            .compared(Kind::NodeClaim, true, Duration::from_secs(45))
            .is_some()
    );
    assert_eq!(mirror.trustworthy(), Ok(()));
}
