//! Relists: what they change, and how a restored etcd shows.

use crate::fixture::{claim, mirror, names, node, now, pod};
use kerf_api::NodeClaim;
use kerf_state::lean::{LeanNode, LeanPod};
use kerf_state::{Event, Kind, Mirror};

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

fn bound(name: &str, node: &str, version: &str) -> LeanPod {
    let mut pod = pod(name, &format!("{{nodeName: {node}}}"), "{phase: Running}");
    pod.metadata.resource_version = Some(version.to_owned());
    pod
}

/// Where pods of the namespace `default` are bound.
fn nodes_of(mirror: &Mirror, pods: &[&str]) -> Vec<Option<String>> {
    let node = |name: &&str| {
        let key = ("default".into(), (*name).into());
        let (pod, _) = mirror.pod_and_provisionable(&key)?;
        pod.node_name.as_deref().map(str::to_owned)
    };
    pods.iter().map(node).collect()
}

#[test]
fn pods_of_a_list_are_there_once_it_is_complete() {
    let mut mirror = mirror();
    let first = [bound("a", "n-1", "5"), bound("b", "n-1", "6")];
    let listed: Vec<_> = first.iter().filter_map(|pod| mirror.listed_pod(pod)).collect();
    assert_eq!(nodes_of(&mirror, &["a", "b"]), [None, None]);
    let report = mirror.reset_pods(listed, &|_, _| false);
    assert_eq!((report.kind, report.listed, report.before), (Kind::Pod, 2, 0));
    let on = |name: &str| Some(name.to_owned());
    assert_eq!(nodes_of(&mirror, &["a", "b"]), [on("n-1"), on("n-1")]);

    // One is known as it is listed, one is new, one has changed, one is gone, and one has a name that is used again.
    mirror.apply(bound("gone", "n-1", "7"));
    mirror.apply(bound("again", "n-1", "8"));
    let mut again = bound("again", "n-3", "12");
    again.metadata.uid = Some("another".to_owned());
    let second = [
        bound("a", "n-1", "5"),
        bound("b", "n-2", "9"),
        bound("new", "n-2", "10"),
        again,
    ];
    let listed: Vec<_> = second.iter().filter_map(|pod| mirror.listed_pod(pod)).collect();
    // Learnt while the list arrives.
    mirror.apply(bound("a", "n-4", "11"));
    let report = mirror.reset_pods(listed, &|_, _| false);
    assert_eq!(report.vanished, ["default/again", "default/gone"]);
    assert_eq!(
        nodes_of(&mirror, &["a", "b", "new", "again", "gone"]),
        [on("n-4"), on("n-2"), on("n-2"), on("n-3"), None]
    );
    assert!(mirror.listed_pod(&LeanPod::default()).is_none(), "it has no name");
}

#[test]
fn a_pod_of_a_list_from_the_past_is_taken_back() {
    let mut mirror = mirror();
    mirror.apply(bound("a", "n-2", "9"));
    let listed: Vec<_> = mirror.listed_pod(&bound("a", "n-1", "5")).into_iter().collect();
    let report = mirror.reset_pods(listed, &|_, _| false);
    assert_eq!(report.rewound, ["default/a"]);
    assert_eq!(nodes_of(&mirror, &["a"]), [Some("n-1".to_owned())]);
}
