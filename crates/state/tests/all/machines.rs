//! Machines: Nodes and NodeClaims merged, their load, and what is kept about them in memory.

use crate::fixture::{amounts, claim, find, label, mirror, names, node, now, pod, pod_names, running, try_find, yaml};
use jiff::SignedDuration;
use kerf_api::StartupTaints;
use kerf_model::intern::{Interner, sym};
use kerf_state::lean::{LeanCsiNode, LeanNode, LeanPod};
use kerf_state::{Conventions, Mirror, MirrorOptions, Now};
use std::sync::Arc;
use std::time::Duration;

const REGISTERED: &str =
    ", karpenter.sh/registered: 'true', karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m";
const INITIALIZED: &str = ", karpenter.sh/registered: 'true', karpenter.sh/initialized: 'true', karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m";

fn taints(mirror: &mut Mirror, name: &str) -> Vec<String> {
    find(&mirror.snapshot(now()), name)
        .taints
        .iter()
        .map(ToString::to_string)
        .collect()
}

// SCH-054, SCH-056, LIF-188, LIF-192
#[test]
fn node_and_claim_of_one_provider_id_are_one_machine() {
    let mut mirror = mirror();
    mirror.apply(claim("c-1", Some("cloud://n-1"), ""));
    mirror.apply(node("n-1", REGISTERED, "[]"));
    let snapshot = mirror.snapshot(now());
    assert_eq!(names(&snapshot), ["n-1"]);
    let machine = find(&snapshot, "n-1");
    assert_eq!(
        (machine.node_name.as_deref(), machine.claim_name.as_deref()),
        (Some("n-1"), Some("c-1"))
    );
    mirror.delete(&node("n-1", REGISTERED, "[]"));
    assert_eq!(names(&mirror.snapshot(now())), ["c-1"]);
    mirror.delete(&claim("c-1", Some("cloud://n-1"), ""));
    assert!(mirror.snapshot(now()).nodes.is_empty());
}

// SCH-054, LIF-190
#[test]
fn nodes_without_provider_id_count_only_unmanaged() {
    let bare =
        |name: &str, labels: &str| yaml::<LeanNode>(&format!("{{metadata: {{name: {name}, labels: {{{labels}}}}}}}"));
    let mut mirror = mirror();
    mirror.apply(bare("own", "a: b"));
    mirror.apply(bare("pooled", "karpenter.sh/nodepool: default"));
    assert_eq!(names(&mirror.snapshot(now())), ["own"]);
    let mut known: LeanNode = bare("own", "a: b");
    known.spec.provider_id = "cloud://own".to_owned();
    mirror.apply(known);
    let snapshot = mirror.snapshot(now());
    assert_eq!(names(&snapshot), ["own"]);
    assert_eq!(find(&snapshot, "own").provider_id.as_deref(), Some("cloud://own"));
}

// SCH-055, LIF-191
#[test]
fn a_pooled_node_without_instance_type_is_ignored_until_it_has_one() {
    let mut mirror = mirror();
    mirror.apply(node("n", ", karpenter.sh/nodepool: default", "[]"));
    assert!(mirror.snapshot(now()).nodes.is_empty());
    mirror.apply(node(
        "n",
        ", karpenter.sh/nodepool: default, karpenter.sh/initialized: 'true'",
        "[]",
    ));
    assert_eq!(names(&mirror.snapshot(now())), ["n"]);
    mirror.apply(node(
        "n",
        ", karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m",
        "[]",
    ));
    assert_eq!(names(&mirror.snapshot(now())), ["n"]);
}

// SCH-056, LIF-192
#[test]
fn a_changed_provider_id_leaves_nothing_behind() {
    let mut mirror = mirror();
    mirror.apply(claim("same", Some("cloud://old"), ""));
    mirror.apply(node("same", "", "[]"));
    assert_eq!(names(&mirror.snapshot(now())), ["same", "same"]);
    mirror.apply(claim("same", Some("cloud://same"), ""));
    assert_eq!(mirror.snapshot(now()).nodes.len(), 1);
}

// SCH-057, LIF-193
#[test]
fn unmanaged_nodes_are_always_registered_and_initialised() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    let snapshot = mirror.snapshot(now());
    let machine = find(&snapshot, "n");
    assert!(machine.registered && machine.initialized && !machine.managed);
}

// SCH-058, SCH-059, LIF-194
#[test]
fn the_claim_speaks_until_the_node_is_registered() {
    let mut mirror = mirror();
    let zoned = ", topology.kubernetes.io/zone: a, karpenter.sh/nodepool: default, node.kubernetes.io/instance-type: m";
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", zoned, "[]"));
    let interner = mirror.interner().clone();
    let snapshot = mirror.snapshot(now());
    let machine = find(&snapshot, "c");
    assert_eq!((machine.registered, machine.initialized), (false, false));
    assert_eq!(label(machine, sym::ZONE, &interner), "");
    assert_eq!(interner.text(machine.hostname), "c");
    mirror.apply(node("n", &format!("{zoned}, karpenter.sh/registered: 'true'"), "[]"));
    let snapshot = mirror.snapshot(now());
    let machine = find(&snapshot, "n");
    assert_eq!((machine.registered, machine.initialized), (true, false));
    assert_eq!(label(machine, sym::ZONE, &interner), "a");
    assert_eq!(interner.text(machine.hostname), "n");
}

// SCH-099
#[test]
fn deprecated_node_labels_count_under_their_present_key() {
    let mut mirror = mirror();
    mirror.apply(node("n", ", beta.kubernetes.io/arch: arm64", "[]"));
    let interner = mirror.interner().clone();
    assert_eq!(label(find(&mirror.snapshot(now()), "n"), sym::ARCH, &interner), "arm64");
}

// SCH-060, SCH-116, SCH-117, LIF-195
#[test]
fn which_taints_count() {
    const BOOT: &str = "[{key: team, value: x, effect: NoSchedule}, {key: cilium, value: any, effect: NoExecute},
        {key: node.kubernetes.io/not-ready, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoExecute},
        {key: node.kubernetes.io/unreachable, effect: NoSchedule}, {key: karpenter.sh/unregistered, effect: NoExecute},
        {key: node.cloudprovider.kubernetes.io/uninitialized, value: 'true', effect: NoSchedule},
        {key: readiness.k8s.io/net, effect: NoSchedule}, {key: x/readiness.k8s.io/net, effect: NoSchedule},
        {key: node.kubernetes.io/unreachable, effect: NoExecute}]";
    let mut mirror = mirror();
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", "", BOOT));
    assert_eq!(taints(&mut mirror, "c"), ["team=x:NoSchedule"]);
    mirror.apply(node("n", REGISTERED, BOOT));
    assert_eq!(
        taints(&mut mirror, "n"),
        [
            "team=x:NoSchedule",
            "x/readiness.k8s.io/net:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute"
        ]
    );
    mirror.apply(node("n", INITIALIZED, BOOT));
    assert_eq!(taints(&mut mirror, "n").len(), 10);
    mirror.apply(node("own", "", BOOT));
    assert_eq!(taints(&mut mirror, "own").len(), 10);
}

// DIS-119 as docs/deviations.md has it
#[test]
fn the_taint_of_nodes_that_are_no_destination_does_not_count() {
    const TAINTS: &str = "[{key: team, value: x, effect: NoSchedule},
        {key: kerf.sh/not-a-destination, value: '1767225660', effect: PreferNoSchedule},
        {key: kerf.sh/not-a-destination, effect: NoSchedule}]";
    let mut mirror = mirror();
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", INITIALIZED, TAINTS));
    mirror.apply(node("own", "", TAINTS));
    for name in ["n", "own"] {
        assert_eq!(
            taints(&mut mirror, name),
            ["team=x:NoSchedule", "kerf.sh/not-a-destination:NoSchedule"],
            "with another effect it is someone else's"
        );
    }
}

// SCH-061, SCH-062, LIF-196
#[test]
fn the_claims_amounts_fill_gaps_until_the_node_is_initialised() {
    let mut mirror = mirror();
    let interner = mirror.interner().clone();
    let booting = |labels: &str| {
        let mut node = node("n", labels, "[]");
        node.status.allocatable = yaml("{cpu: '0', memory: 6Gi, pods: '10'}");
        node
    };
    let mut allocatable = |labels: &str| {
        mirror.apply(claim("c", Some("cloud://n"), ""));
        mirror.apply(booting(labels));
        let snapshot = mirror.snapshot(now());
        assert_eq!(snapshot.nodes[0].capacity.get(sym::NODES), 1);
        amounts(&snapshot.nodes[0].allocatable, &interner)
    };
    assert_eq!(
        allocatable(REGISTERED),
        "cpu=3900 memory=6442450944 nvidia.com/gpu=1 pods=10"
    );
    assert_eq!(allocatable(INITIALIZED), "cpu=0 memory=6442450944 pods=10");
}

/// A claim that is initialised since the given time.
fn initialised(since: &str) -> kerf_api::NodeClaim {
    let mut claim = claim("c", Some("cloud://n"), "");
    let conditions =
        format!("[{{type: Initialized, status: 'True', reason: Initialized, lastTransitionTime: '{since}'}}]");
    claim.status.as_mut().expect("launched").conditions = yaml(&conditions);
    claim
}

// Kerf's own: the kubelet, the network plugin or the devices of a machine restart right after it was initialised.
#[test]
fn a_machine_that_relapses_soon_after_its_start_is_starting() {
    const GPU: &str = "{cpu: '4', memory: 6Gi, pods: '10', nvidia.com/gpu: '1'}";
    let at = |minute: i64| now() + SignedDuration::from_mins(minute);
    let relapses: [(&str, &str, bool); 6] = [
        ("[]", GPU, false),
        ("[{key: node.kubernetes.io/not-ready, effect: NoSchedule}]", GPU, true),
        ("[{key: node.cilium.io/agent-not-ready, effect: NoExecute}]", GPU, true),
        ("[{key: cilium, effect: NoExecute}]", GPU, true),
        ("[]", "{cpu: '0', memory: 6Gi, pods: '10', nvidia.com/gpu: '0'}", true),
        (
            "[{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]",
            GPU,
            false,
        ),
    ];
    for (taints, allocatable, relapsed) in relapses {
        let mut mirror = mirror();
        let mut node = node("n", INITIALIZED, taints);
        node.status.allocatable = yaml(allocatable);
        mirror.apply(initialised("2026-01-01T00:00:00Z"));
        mirror.apply(node);
        let mut shown = |minute| {
            let uptime = Duration::ZERO;
            mirror.expire(Now {
                wall: at(minute),
                uptime,
            });
            let snapshot = mirror.snapshot(at(minute));
            let machine = find(&snapshot, "n").clone();
            (
                machine.initialized,
                machine.taints.len(),
                machine.allocatable.get(sym::CPU) > 0,
            )
        };
        let (early, late) = (shown(4), shown(5));
        assert!(late.0, "{taints} {allocatable}");
        // Time alone ends it.
        let expected = if relapsed { (false, 0, true) } else { late };
        assert_eq!(early, expected, "{taints} {allocatable}");
        assert_eq!(early != late, relapsed, "{taints} {allocatable}");
    }
}

// SCH-060: well-known taints count as declared, unless they are declared to stay.
#[test]
fn well_known_startup_taints_need_no_declaration() {
    const TAINTS: &str =
        "[{key: node.cilium.io/agent-not-ready, effect: NoExecute}, {key: corp.example/agent, effect: NoSchedule},
        {key: ebs.csi.aws.com/agent-not-ready, effect: NoSchedule}]";
    let options = MirrorOptions {
        conventions: Conventions {
            startup_taints: StartupTaints::with(["corp.example/agent".to_owned()]),
            ..Conventions::default()
        },
        offline: false,
    };
    let mut mirror = Mirror::new(Arc::new(Interner::default()), &options);
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", REGISTERED, TAINTS));
    assert!(taints(&mut mirror, "n").is_empty());
    let mut kept = claim("c", Some("cloud://n"), "");
    kept.spec.taints = yaml("[{key: node.cilium.io/agent-not-ready, effect: NoExecute}]");
    mirror.apply(kept);
    assert_eq!(taints(&mut mirror, "n"), ["node.cilium.io/agent-not-ready:NoExecute"]);
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", INITIALIZED, TAINTS));
    assert_eq!(taints(&mut mirror, "n").len(), 3);
}

// SCH-061
#[test]
fn a_claim_alone_shows_what_the_provider_promises() {
    let mut mirror = mirror();
    mirror.apply(claim("c", Some("cloud://n"), ""));
    let snapshot = mirror.snapshot(now());
    let machine = find(&snapshot, "c");
    assert_eq!(
        (machine.allocatable.get(sym::CPU), machine.capacity.get(sym::CPU)),
        (3900, 4000)
    );
    assert!(machine.node_name.is_none() && !machine.registered);
}

// SCH-063, SCH-064, SCH-065, LIF-197, LIF-201
#[test]
fn bound_pods_hold_resources_until_they_are_terminal_or_gone() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    let cpu = |mirror: &mut Mirror| find(&mirror.snapshot(now()), "n").available().get(sym::CPU);
    mirror.apply(running("a", "n", "'1'"));
    mirror.apply(running("elsewhere", "unknown", "'1'"));
    mirror.apply(crate::fixture::pending(
        "waits",
        "{containers: [{name: a, resources: {requests: {cpu: '1'}}}]}",
    ));
    assert_eq!(cpu(&mut mirror), 2800);
    let terminating: LeanPod = yaml(
        "{metadata: {name: a, namespace: default, uid: uid-a, deletionTimestamp: '2026-01-01T00:00:00Z'},
          spec: {nodeName: n, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}, status: {phase: Running}}",
    );
    mirror.apply(terminating);
    assert_eq!(cpu(&mut mirror), 2800);
    mirror.apply(pod(
        "a",
        "{nodeName: n, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}",
        "{phase: Succeeded}",
    ));
    assert_eq!(cpu(&mut mirror), 3800);
    mirror.apply(running("a", "n", "'1'"));
    mirror.delete(&running("a", "n", "'1'"));
    assert_eq!(cpu(&mut mirror), 3800);
}

// LIF-202
#[test]
fn a_node_that_comes_or_changes_counts_the_pods_bound_to_it() {
    let mut mirror = mirror();
    let cpu = |mirror: &mut Mirror| find(&mirror.snapshot(now()), "n").available().get(sym::CPU);
    mirror.apply(running("a", "n", "'1'"));
    mirror.apply(running("elsewhere", "m", "'1'"));
    mirror.apply(pod(
        "done",
        "{nodeName: n, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}",
        "{phase: Succeeded}",
    ));
    mirror.apply(node("n", "", "[]"));
    assert_eq!(cpu(&mut mirror), 2800);
    mirror.apply(node("n", ", team: blue", "[]"));
    assert_eq!(cpu(&mut mirror), 2800);
    mirror.delete(&node("n", "", "[]"));
    mirror.apply(running("b", "n", "500m"));
    mirror.apply(node("n", "", "[]"));
    assert_eq!(cpu(&mut mirror), 2300);
}

// SCH-063
#[test]
fn daemon_pods_are_summed_separately() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    mirror.apply(running("a", "n", "'1'"));
    mirror.apply(yaml::<LeanPod>(
        "{metadata: {name: d, ownerReferences: [{apiVersion: apps/v1, kind: DaemonSet, name: d, uid: d, controller: true}]},
          spec: {nodeName: n, containers: [{name: a, resources: {requests: {cpu: 300m}}}]}, status: {phase: Running}}",
    ));
    let snapshot = mirror.snapshot(now());
    let machine = find(&snapshot, "n");
    assert_eq!(
        (machine.requested.get(sym::CPU), machine.daemon_requested.get(sym::CPU)),
        (1300, 300)
    );
    assert_eq!(machine.requested.get(sym::PODS), 2);
}

// SCH-065, SCH-066
#[test]
fn a_name_used_again_moves_the_usage_and_late_events_do_no_harm() {
    let mut mirror = mirror();
    // The pod's event is delivered before that of its node.
    mirror.apply(running("a", "n-1", "'1'"));
    mirror.apply(node("n-1", "", "[]"));
    mirror.apply(node("n-2", "", "[]"));
    assert_eq!(pod_names(&find(&mirror.snapshot(now()), "n-1").pods), ["a"]);
    let mut again = running("a", "n-2", "'1'");
    again.metadata.uid = Some("another".to_owned());
    mirror.apply(again);
    // The deletion of the first pod is delivered late.
    mirror.delete(&running("a", "n-1", "'1'"));
    let snapshot = mirror.snapshot(now());
    assert!(find(&snapshot, "n-1").pods.is_empty());
    assert_eq!(pod_names(&find(&snapshot, "n-2").pods), ["a"]);
}

// SCH-067, LIF-198
#[test]
fn what_marks_a_machine_for_deletion() {
    let terminating = "status: {providerID: 'cloud://n', conditions: [{type: InstanceTerminating, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]}";
    let deleting_node = |labels: &str| {
        let mut node = node("n", labels, "[]");
        node.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
        node
    };
    let marked = |mirror: &mut Mirror| mirror.snapshot(now()).nodes[0].marked_for_deletion;

    let mut managed = mirror();
    managed.apply(claim("c", Some("cloud://n"), ""));
    managed.apply(deleting_node(INITIALIZED));
    assert!(!marked(&mut managed), "the Node's own deletion is not enough");
    managed.apply(claim("c", None, terminating));
    assert!(marked(&mut managed), "InstanceTerminating");

    let mut deleting = claim("c", Some("cloud://n"), "");
    deleting.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
    managed.apply(deleting);
    assert!(marked(&mut managed), "claim deletion");

    let mut unmanaged = mirror();
    unmanaged.apply(deleting_node(""));
    assert!(marked(&mut unmanaged), "no claim, Node deletion");
}

// SCH-067, LIF-199, LIF-211
#[test]
fn commands_mark_and_unmark() {
    let mut mirror = mirror();
    mirror.mark_for_deletion("cloud://n");
    mirror.apply(claim("c", Some("cloud://n"), ""));
    let marked = |mirror: &mut Mirror| mirror.snapshot(now()).nodes[0].marked_for_deletion;
    assert!(!marked(&mut mirror), "no machine had the id");
    mirror.mark_for_deletion("cloud://n");
    assert!(marked(&mut mirror));
    mirror.unmark_for_deletion("cloud://n");
    assert!(!marked(&mut mirror));
}

// SCH-069, LIF-197
#[test]
fn attach_limits_come_from_the_csi_node() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    mirror.apply(yaml::<LeanCsiNode>(
        "{metadata: {name: n}, spec: {drivers: [{name: ebs, allocatable: {count: 25}}, {name: efs}, {name: odd, allocatable: {}}]}}",
    ));
    let limits = |mirror: &mut Mirror| find(&mirror.snapshot(now()), "n").volume_limits.clone();
    assert_eq!(limits(&mut mirror), [("ebs".into(), 25)]);
    mirror.apply(claim("c", Some("cloud://n"), ""));
    mirror.apply(node("n", INITIALIZED, "[]"));
    assert_eq!(limits(&mut mirror), [("ebs".into(), 25)]);
}

// SCH-072, LIF-200
#[test]
fn nominations_extend_and_end() {
    let mut mirror = mirror();
    mirror.apply(node("n", "", "[]"));
    mirror.snapshot(now());
    let (first, second) = (
        now() + SignedDuration::from_secs(20),
        now() + SignedDuration::from_secs(25),
    );
    let until = |mirror: &mut Mirror, at| {
        let uptime = Duration::ZERO;
        mirror.expire(Now { wall: at, uptime });
        find(&mirror.snapshot(at), "n").nominated_until
    };
    mirror.nominate("n", second);
    mirror.nominate("n", first);
    assert_eq!(until(&mut mirror, first), Some(second));
    assert_eq!(until(&mut mirror, second), None);
}

// SCH-499
#[test]
fn cordon_and_readiness_count_through_taints_only() {
    let mut mirror = mirror();
    mirror.apply(yaml::<LeanNode>(
        "{metadata: {name: n}, spec: {unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]},
          status: {conditions: [{type: Ready, status: 'False'}]}}",
    ));
    assert_eq!(
        taints(&mut mirror, "n"),
        ["node.kubernetes.io/unschedulable:NoSchedule"]
    );
}

// DIS-029
#[test]
fn only_true_protects_a_node() {
    for (value, expected) in [("'true'", true), ("'false'", false), ("5m", false)] {
        let mut mirror = mirror();
        mirror.apply(yaml::<LeanNode>(&format!(
            "{{metadata: {{name: n, annotations: {{karpenter.sh/do-not-disrupt: {value}}}}}}}"
        )));
        assert_eq!(find(&mirror.snapshot(now()), "n").lifecycle.do_not_disrupt, expected);
    }
}

// LIF-142, LIF-137: the inputs disruption reads from the claim.
#[test]
fn the_lifecycle_comes_from_the_claim() {
    let status = "  expireAfter: 1h
  terminationGracePeriod: 90s
status:
  providerID: cloud://n
  lastPodEventTime: '2025-12-31T12:00:00Z'
  conditions:
  - {type: Consolidatable, status: 'True', lastTransitionTime: '2025-12-31T12:00:00Z'}
  - {type: Initialized, status: 'True', lastTransitionTime: '2025-12-31T11:00:00Z'}
  - {type: Drifted, status: 'True', reason: NodePoolDrifted, lastTransitionTime: '2025-12-31T13:00:00Z'}";
    let mut mirror = mirror();
    mirror.apply(claim("c", None, status));
    let snapshot = mirror.snapshot(now());
    let lifecycle = &find(&snapshot, "c").lifecycle;
    assert!(lifecycle.consolidatable);
    assert_eq!(
        lifecycle.drifted.as_ref().map(|(reason, _)| &**reason),
        Some("NodePoolDrifted")
    );
    assert_eq!(lifecycle.initialized_at, Some("2025-12-31T11:00:00Z".parse().unwrap()));
    assert_eq!(lifecycle.last_pod_event, Some("2025-12-31T12:00:00Z".parse().unwrap()));
    assert_eq!(lifecycle.expires, Some("2025-12-31T01:00:00Z".parse().unwrap()));
    assert_eq!(lifecycle.termination_grace_seconds, Some(90));
}

#[test]
fn a_claim_of_unknown_age_has_no_time_of_expiration() {
    let mut claim = claim("c", None, "  expireAfter: 1h\nstatus: {providerID: cloud://n}");
    claim.metadata.creation_timestamp = None;
    let mut mirror = mirror();
    mirror.apply(claim);
    assert_eq!(find(&mirror.snapshot(now()), "c").lifecycle.expires, None);
}

#[test]
fn a_snapshot_without_change_is_the_last_one_and_a_change_leaves_the_rest_alone() {
    let mut mirror = mirror();
    mirror.apply(node("a", "", "[]"));
    mirror.apply(node("b", "", "[]"));
    let first = mirror.snapshot(now());
    mirror.apply(node("a", "", "[]"));
    assert!(std::sync::Arc::ptr_eq(&first, &mirror.snapshot(now())));
    mirror.apply(running("p", "a", "'1'"));
    let second = mirror.snapshot(now());
    assert!(!std::sync::Arc::ptr_eq(&first.nodes[0], &second.nodes[0]));
    assert!(std::sync::Arc::ptr_eq(&first.nodes[1], &second.nodes[1]));
    assert!(try_find(&second, "c").is_none());
}

// LIF-207, LIF-208
#[test]
fn what_makes_consolidation_look_again() {
    let mut mirror = mirror();
    let mut moved = |change: &dyn Fn(&mut Mirror)| {
        mirror.snapshot(now());
        let before = mirror.consolidation_epoch();
        change(&mut mirror);
        mirror.snapshot(now());
        mirror.consolidation_epoch() != before
    };
    assert!(
        moved(&|m| m.apply(claim("c", Some("cloud://n"), ""))),
        "first object of a machine"
    );
    assert!(!moved(&|m| m.apply(node("n", REGISTERED, "[]"))), "its second object");
    assert!(moved(&|m| m.apply(node("n", INITIALIZED, "[]"))), "initialised");
    assert!(moved(&|m| m.apply(running("a", "n", "'1'"))), "a binding");
    assert!(
        moved(&|m| m.apply(pod(
            "a",
            "{nodeName: n, containers: [{name: a, resources: {requests: {cpu: '1'}}}]}",
            "{phase: Failed}"
        ))),
        "a pod turns terminal"
    );
    assert!(moved(&|m| m.delete(&running("a", "n", "'1'"))), "a pod is deleted");
    assert!(!moved(&|m| m.mark_for_deletion("cloud://n")), "a command's mark");
    assert!(!moved(&|m| m.unmark_for_deletion("cloud://n")), "taken back");
    let labelled = format!("{INITIALIZED}, team: a");
    assert!(moved(&|m| m.apply(node("n", &labelled, "[]"))), "a label");
    assert!(!moved(&|m| m.apply(node("n", &labelled, "[]"))), "it is told again");
    assert!(moved(&|m| m.delete(&node("n", "", "[]"))), "an object disappears");
    let mut going = claim("c", Some("cloud://n"), "");
    going.metadata.deletion_timestamp = Some(yaml("'2026-01-01T00:00:00Z'"));
    assert!(moved(&|m| m.apply(going.clone())), "a claim is being deleted");
    assert!(moved(&|m| m.delete(&going)), "and is gone");
    let terminating = "status: {providerID: 'cloud://d', conditions: [{type: InstanceTerminating, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}]}";
    assert!(
        moved(&|m| m.apply(claim("d", Some("cloud://d"), ""))),
        "another machine"
    );
    assert!(moved(&|m| m.apply(claim("d", None, terminating))), "its instance ends");
    let pool = |generation: i64, weight: u32| -> kerf_api::NodePool {
        yaml(&format!(
            "{{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {{name: default, uid: pool, generation: {generation}}},
               spec: {{weight: {weight}, template: {{spec: {{requirements: [],
                 nodeClassRef: {{group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}}}}}}}"
        ))
    };
    assert!(moved(&|m| m.apply(pool(1, 1))), "a pool");
    assert!(!moved(&|m| m.apply(pool(1, 1))), "it is told again");
    assert!(moved(&|m| m.apply(pool(2, 5))), "it changed");
    assert!(!moved(&|m| m.delete(&pool(2, 5))), "it is gone");
}
