//! Relists: what they change, and how a restored etcd shows.

use crate::fixture::{claim, mirror, names, node, now};
use kerf_api::NodeClaim;
use kerf_state::lean::LeanNode;
use kerf_state::{Event, Kind};

fn at(name: &str, version: &str) -> NodeClaim {
    let mut claim = claim(name, Some(&format!("cloud://{name}")), "");
    claim.metadata.resource_version = Some(version.to_owned());
    claim
}

#[test]
fn a_relist_drops_what_it_lacks_and_says_so() {
    let mut mirror = mirror();
    mirror.reset(vec![at("a", "5"), at("b", "6")]);
    let report = mirror.reset(vec![at("b", "6"), at("c", "7")]);
    assert_eq!((report.kind, report.listed, report.before), (Kind::NodeClaim, 2, 2));
    assert_eq!(report.vanished, ["a"]);
    assert!(!report.is_suspicious());
    assert_eq!(names(&mirror.snapshot(now())), ["b", "c"]);
}

#[test]
fn an_empty_list_after_a_full_one_is_suspicious() {
    let mut mirror = mirror();
    let first = mirror.reset(Vec::<LeanNode>::new());
    assert!(!first.is_suspicious(), "a cluster may have no nodes");
    mirror.reset(vec![node("n", "", "[]")]);
    let report = mirror.fold(Event::Reset(Vec::<LeanNode>::new())).unwrap();
    assert!(report.is_suspicious());
    assert_eq!(report.vanished, ["n"]);
}

#[test]
fn a_list_from_the_past_is_suspicious() {
    let mut mirror = mirror();
    mirror.reset(vec![at("a", "5"), at("b", "9")]);
    let report = mirror.reset(vec![at("a", "5"), at("b", "8")]);
    assert!(report.is_suspicious());
    assert_eq!(report.rewound, ["b"]);
}

#[test]
fn a_name_used_again_counts_as_vanished() {
    let mut mirror = mirror();
    mirror.reset(vec![at("a", "5")]);
    let mut again = at("a", "3");
    again.metadata.uid = Some("another".to_owned());
    let report = mirror.reset(vec![again]);
    assert_eq!((report.vanished, report.rewound.len()), (vec!["a".to_owned()], 0));
}

#[test]
fn an_empty_list_is_no_surprise_when_everything_was_being_deleted() {
    let mut mirror = mirror();
    let mut claim = claim("c", None, "");
    for deleting in [true, false] {
        claim.metadata.deletion_timestamp =
            deleting.then(|| k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now()));
        mirror.reset(vec![claim.clone()]);
        let report = mirror.reset(Vec::<kerf_api::NodeClaim>::new());
        assert_eq!((report.vanished.len(), report.is_suspicious()), (1, !deleting));
        assert_eq!(mirror.trustworthy().is_err(), !deleting);
    }
}
