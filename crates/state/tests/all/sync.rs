//! When the mirror may be decided on, and what holds while claims are not launched yet.

use crate::fixture::{claim, find, mirror, names, node, now, pending, pod_names, running, try_find, yaml};
use kerf_api::NodeClaim;
use kerf_model::intern::sym;
use kerf_model::resources::Resources;
use kerf_state::{Conventions, Kind, Mirror, MirrorOptions};
use std::sync::Arc;

fn listed() -> Mirror {
    let mut mirror = mirror();
    list(&mut mirror);
    mirror
}

fn list(mirror: &mut Mirror) {
    use kerf_state::lean::{
        LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPv, LeanPvc, LeanStorageClass,
    };
    mirror.reset::<LeanPod>(vec![]);
    mirror.reset::<LeanNode>(vec![]);
    mirror.reset::<NodeClaim>(vec![]);
    mirror.reset::<kerf_api::NodePool>(vec![]);
    mirror.reset::<LeanDaemonSet>(vec![]);
    mirror.reset::<LeanPvc>(vec![]);
    mirror.reset::<LeanPv>(vec![]);
    mirror.reset::<LeanStorageClass>(vec![]);
    mirror.reset::<LeanCsiNode>(vec![]);
    mirror.reset::<LeanPdb>(vec![]);
    mirror.reset::<LeanNamespace>(vec![]);
}

const CPU_1: &str = "{containers: [{name: a, resources: {requests: {cpu: '1'}}}]}";

// SCH-074, LIF-183, OPS-060
#[test]
fn nothing_is_decided_before_everything_was_listed() {
    let mut mirror = mirror();
    let required = Kind::ALL.iter().filter(|kind| kind.is_required());
    assert_eq!(mirror.sync_report().unlisted.len(), required.count());
    list(&mut mirror);
    assert!(mirror.sync_report().is_synced());
}

// SCH-075, SCH-076, LIF-184, LIF-185, LIF-189, OPS-060
#[test]
fn a_claim_nobody_promised_pods_to_blocks_until_it_is_launched_or_gone() {
    let mut mirror = listed();
    mirror.created(claim("c", None, ""));
    assert_eq!(mirror.sync_report().unlaunched, ["c".into()]);
    assert!(mirror.snapshot(now()).nodes.is_empty());
    mirror.apply(claim("c", Some("cloud://n"), ""));
    assert!(mirror.sync_report().is_synced());
    mirror.created(claim("d", None, ""));
    mirror.delete(&claim("d", None, ""));
    assert!(mirror.sync_report().is_synced());
}

// SCH-076
#[test]
fn a_creation_reported_late_does_not_undo_what_the_watch_said() {
    let mut mirror = listed();
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.created(claim("c", None, ""));
    assert!(mirror.sync_report().is_synced());
    assert_eq!(names(&mirror.snapshot(now())), ["c"]);
}

// LIF-005
#[test]
fn claims_of_other_providers_do_not_count() {
    let mut conventions = Conventions::default();
    conventions
        .node_classes
        .insert(("karpenter.k8s.aws".to_owned(), "EC2NodeClass".to_owned()));
    let options = MirrorOptions {
        conventions,
        offline: false,
    };
    let mut mirror = Mirror::new(Arc::default(), &options);
    list(&mut mirror);
    mirror.apply(claim("c", None, ""));
    assert!(mirror.sync_report().is_synced());
}

fn promised() -> Mirror {
    let mut mirror = listed();
    mirror.apply(pending("a", CPU_1));
    mirror.apply(pending("b", CPU_1));
    mirror.apply(pending("c", CPU_1));
    let pods = mirror.snapshot(now()).pending.clone();
    mirror.created(claim("claim", None, ""));
    assert!(mirror.promise("claim", &pods[..2], Resources::new().with(sym::CPU, 16_000)));
    mirror
}

#[test]
fn promised_pods_are_planned_once_and_their_claim_is_full() {
    let mut mirror = promised();
    assert!(mirror.sync_report().is_synced(), "planning goes on");
    let snapshot = mirror.snapshot(now());
    assert_eq!(pod_names(&snapshot.pending), ["c"]);
    let planned = find(&snapshot, "claim");
    assert_eq!(pod_names(&planned.pods), ["a", "b"]);
    assert!(planned.provider_id.is_none() && planned.price.is_none() && planned.managed);
    assert!(planned.available().iter().all(|(_, amount)| amount == 0));
    assert_eq!(
        (planned.capacity.get(sym::CPU), planned.capacity.get(sym::NODES)),
        (16_000, 1)
    );
    // Labels the requirements leave one value for are known, others are not.
    assert!(planned.label(sym::ARCH).is_some() && planned.label(sym::ZONE).is_none());
    let taints: Vec<String> = planned.taints.iter().map(ToString::to_string).collect();
    assert_eq!(taints, ["team=x:NoSchedule"]);
    assert!(
        mirror
            .promised_to(&planned.pods[0])
            .is_some_and(|claim| **claim == *"claim")
    );
}

#[test]
fn a_promise_ends_with_launch_deletion_or_loss_of_the_claim() {
    let mut deleting = claim("claim", None, "");
    deleting.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
    let ends: [&dyn Fn(&mut Mirror); 4] = [
        &|m| m.apply(claim("claim", Some("cloud://n"), "")),
        &|m| m.apply(deleting.clone()),
        &|m| m.delete(&claim("claim", None, "")),
        &|m| drop(m.reset::<NodeClaim>(vec![])),
    ];
    for (at, end) in ends.into_iter().enumerate() {
        let mut mirror = promised();
        end(&mut mirror);
        let snapshot = mirror.snapshot(now());
        assert_eq!(pod_names(&snapshot.pending), ["a", "b", "c"], "{at}");
        assert_eq!(try_find(&snapshot, "claim").is_some(), at == 0, "{at}");
        assert!(mirror.sync_report().is_synced(), "{at}");
    }
}

#[test]
fn a_promised_pod_that_is_bound_or_gone_leaves_its_claim() {
    let mut mirror = promised();
    mirror.apply(running("a", "n", "'1'"));
    mirror.delete(&pending("b", CPU_1));
    let mut again = pending("b", CPU_1);
    again.metadata.uid = Some("another".to_owned());
    mirror.apply(again);
    let snapshot = mirror.snapshot(now());
    let planned = find(&snapshot, "claim");
    assert!(planned.pods.is_empty());
    // The machine is launched all the same: other pods may use the room.
    assert_eq!(planned.available().get(sym::CPU), 2_000);
    assert_eq!(pod_names(&snapshot.pending), ["b", "c"]);
}

#[test]
fn a_namesake_of_a_promised_pod_gets_no_room_on_its_claim() {
    let mut mirror = promised();
    // The watch missed the deletion of the first.
    let mut again = pending("b", CPU_1);
    again.metadata.uid = Some("another".to_owned());
    mirror.apply(again);
    let snapshot = mirror.snapshot(now());
    assert_eq!(pod_names(&snapshot.pending), ["b", "c"]);
    assert_eq!(pod_names(&find(&snapshot, "claim").pods), ["a"]);
}

/// A pod that was to leave its machine, whose command is taken back.
#[test]
fn a_promised_pod_whose_machine_stays_leaves_its_claim() {
    let mut going = claim("old", Some("cloud://n"), "");
    going.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
    for (goes_anyway, available) in [(false, 1_000), (true, 0)] {
        let mut mirror = listed();
        mirror.apply(claim("old", Some("cloud://n"), ""));
        let labels =
            ", karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: t, karpenter.sh/registered: 'true'";
        mirror.apply(node("n", labels, "[]"));
        mirror.apply(running("a", "n", "'1'"));
        mirror.mark_for_deletion("cloud://n");
        let moving = find(&mirror.snapshot(now()), "n").pods.clone();
        assert_eq!(pod_names(&moving), ["a"]);
        mirror.created(claim("claim", None, ""));
        assert!(mirror.promise("claim", &moving, Resources::new()));
        mirror.release(&moving);
        assert!(mirror.promised_to(&moving[0]).is_some(), "its machine is to go");
        if goes_anyway {
            mirror.apply(going.clone());
        }
        mirror.unmark_for_deletion("cloud://n");
        assert_eq!(mirror.promised_to(&moving[0]).is_some(), goes_anyway);
        let snapshot = mirror.snapshot(now());
        assert_eq!(find(&snapshot, "claim").available().get(sym::CPU), available);
    }
}

/// A claim asks for its pods and for daemons. Once the pods are elsewhere, as many others have their room.
#[test]
fn the_daemons_of_a_planned_machine_are_counted_once() {
    let mut mirror = listed();
    mirror.apply(pending("a", CPU_1));
    let pods = mirror.snapshot(now()).pending.clone();
    mirror.created(claim("claim", None, ""));
    assert!(mirror.promise("claim", &pods, Resources::new()));
    for (available, bound) in [(0, false), (1_000, true)] {
        if bound {
            mirror.apply(running("a", "n", "'1'"));
        }
        let snapshot = mirror.snapshot(now());
        let planned = find(&snapshot, "claim");
        assert_eq!(planned.available().get(sym::CPU), available);
        assert_eq!(planned.daemon_requested.get(sym::CPU), 1_000, "of two");
    }
}

#[test]
fn a_claim_of_an_earlier_life_is_adopted_with_all_its_room() {
    let mut mirror = listed();
    mirror.apply(pending("a", CPU_1));
    mirror.apply(claim("claim", None, ""));
    assert!(!mirror.sync_report().is_synced());
    assert!(mirror.adopt("claim") && mirror.sync_report().is_synced());
    let snapshot = mirror.snapshot(now());
    let planned = find(&snapshot, "claim");
    assert_eq!(planned.available().get(sym::CPU), 2_000);
    assert_eq!(pod_names(&snapshot.pending), ["a"]);
    assert!(!mirror.adopt("claim"), "it is already");
    mirror.apply(claim("claim", Some("cloud://n"), ""));
    assert!(!mirror.adopt("claim"), "it is launched");
    assert!(!mirror.adopt("nobody"));
}

#[test]
fn nothing_is_promised_to_a_claim_that_is_gone_or_launched() {
    let mut mirror = listed();
    mirror.apply(pending("a", CPU_1));
    let pods = mirror.snapshot(now()).pending.clone();
    assert!(!mirror.promise("gone", &pods, Resources::new()));
    mirror.apply(claim("claim", Some("cloud://n"), ""));
    assert!(!mirror.promise("claim", &pods, Resources::new()));
    assert_eq!(pod_names(&mirror.snapshot(now()).pending), ["a"]);
}
