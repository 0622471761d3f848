//! Which pods of a node go next (LIF-098 to LIF-106, LIF-114 to LIF-118): pure.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_model::pod::{Owner, Pod};
use kerf_model::taint::{Effect, Taint};

/// How long past its deletion time a pod is waited for (LIF-098). The time already includes the pod's own grace.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// What to do with the pods of a node now.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Drain<'a> {
    /// Delete these (LIF-114).
    pub(crate) delete: Vec<&'a Pod>,
    /// The grace those get, in seconds: what is left, and at least one (LIF-115).
    pub(crate) grace_seconds: i64,
    /// Evict these (LIF-102).
    pub(crate) evict: Vec<&'a Pod>,
    /// How many pods the node still waits for, those above included (LIF-103).
    pub(crate) waiting: usize,
}

/// Decides on the pods of a node that has to be empty by `deadline`, if there is one.
pub(crate) fn drain(pods: &[Arc<Pod>], deadline: Option<Timestamp>, now: Timestamp) -> Drain<'_> {
    let waiting: Vec<&Pod> = pods
        .iter()
        .map(|pod| &**pod)
        .filter(|pod| is_waiting(pod, now))
        .collect();
    let expiring = |pod: &Pod| deadline.is_some_and(|deadline| is_expiring(pod, deadline, now));
    let first = waiting.iter().map(|pod| group(pod)).min();
    let in_turn = waiting.iter().filter(|pod| Some(group(pod)) == first);
    let evictable = in_turn.filter(|pod| kerf_disruption::evictable(pod, now));
    Drain {
        delete: waiting.iter().filter(|pod| expiring(pod)).copied().collect(),
        grace_seconds: deadline.map_or(1, |deadline| deadline.duration_since(now).as_secs().max(1)),
        evict: evictable.filter(|pod| !expiring(pod)).copied().collect(),
        waiting: waiting.len(),
    }
}

/// LIF-099: the node's end waits for the pod, or would if it had not finished.
pub(crate) fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let stuck = pod
        .deletion
        .is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER);
    !stuck && pod.owner != Owner::Node && !tolerates_disruption(pod)
}

fn is_waiting(pod: &Pod, now: Timestamp) -> bool {
    is_drainable(pod, now) && !pod.phase.is_terminal()
}

/// LIF-100.
fn tolerates_disruption(pod: &Pod) -> bool {
    let taint = Taint {
        key: kerf_api::taints::DISRUPTED.into(),
        value: "".into(),
        effect: Effect::NoSchedule,
    };
    pod.shape
        .tolerations
        .iter()
        .any(|toleration| toleration.tolerates(&taint))
}

/// LIF-114, LIF-116, LIF-118: only by being deleted now does it get the grace it asks for, or what is left of it.
fn is_expiring(pod: &Pod, deadline: Timestamp, now: Timestamp) -> bool {
    let lasts_longer = pod.deletion.is_none_or(|deletion| deletion > deadline);
    let left = deadline.duration_since(now);
    let asks_for_more = pod
        .grace_seconds
        .is_some_and(|grace| left < SignedDuration::from_secs(grace));
    lasts_longer && asks_for_more
}

/// LIF-101: the lowest goes first.
fn group(pod: &Pod) -> u8 {
    u8::from(pod.critical) * 2 + u8::from(pod.owner == Owner::DaemonSet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;
    use kerf_state::{Conventions, Converter};
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().expect("a timestamp")
    }

    fn at(seconds: i64) -> String {
        (now() + SignedDuration::from_secs(seconds)).to_string()
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the values are written where they are passed"
    )]
    fn pod(name: &str, metadata: Value, spec: Value, status: Value) -> Arc<Pod> {
        let mut meta = json!({"name": name, "namespace": "default", "uid": name});
        let object = meta.as_object_mut().expect("an object");
        object.extend(metadata.as_object().cloned().unwrap_or_default());
        let lean = serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).expect("a pod");
        let mut converter = Converter::new(Arc::new(Interner::default()), &Conventions::default());
        Arc::new(converter.pod(&lean).pod)
    }

    fn plain(name: &str) -> Arc<Pod> {
        pod(name, json!({}), json!({}), json!({"phase": "Running"}))
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "the values are written where they are passed"
    )]
    fn of_class(name: &str, class: &str, owner: Value) -> Arc<Pod> {
        pod(
            name,
            json!({"ownerReferences": [owner]}),
            json!({"priorityClassName": class}),
            json!({}),
        )
    }

    fn owner(version: &str, kind: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": true})
    }

    fn with_grace(seconds: i64, metadata: Value) -> Arc<Pod> {
        pod(
            "p",
            metadata,
            json!({"terminationGracePeriodSeconds": seconds}),
            json!({}),
        )
    }

    fn names(pods: &[&Pod]) -> Vec<String> {
        pods.iter().map(|pod| pod.name.to_string()).collect()
    }

    fn evicted(pods: &[Arc<Pod>]) -> (Vec<String>, usize) {
        let drain = drain(pods, None, now());
        (names(&drain.evict), drain.waiting)
    }

    // LIF-101, LIF-102, LIF-103
    #[test]
    fn groups_go_one_after_the_other() {
        let daemon = || owner("apps/v1", "DaemonSet");
        let set = || owner("apps/v1", "ReplicaSet");
        let mut pods = vec![
            of_class("critical-daemon", "system-node-critical", daemon()),
            of_class("critical", "system-cluster-critical", set()),
            of_class("daemon", "", daemon()),
            of_class("important", "my-critical", set()),
            plain("bare"),
        ];
        for (expected, left) in [
            // LIF-105: the bare pod goes like others.
            (vec!["important", "bare"], 5),
            (vec!["daemon"], 3),
            (vec!["critical"], 2),
            (vec!["critical-daemon"], 1),
            (vec![], 0),
        ] {
            let (evict, waiting) = evicted(&pods);
            assert_eq!(
                (evict.clone(), waiting),
                (expected.iter().map(ToString::to_string).collect(), left)
            );
            pods.retain(|pod| !evict.contains(&pod.name.to_string()));
        }
    }

    #[test]
    fn a_group_that_waits_holds_the_later_ones_back() {
        let terminating = |ago: i64| {
            pod(
                "going",
                json!({"deletionTimestamp": at(-ago)}),
                json!({}),
                json!({"phase": "Running"}),
            )
        };
        let daemon = of_class("daemon", "", owner("apps/v1", "DaemonSet"));
        // LIF-102
        assert_eq!(evicted(&[terminating(60), Arc::clone(&daemon)]), (vec![], 2));
        // LIF-098, LIF-106
        assert_eq!(
            evicted(&[terminating(61), Arc::clone(&daemon)]),
            (vec!["daemon".to_owned()], 1)
        );
        let started = json!({"phase": "Running", "startTime": at(-600)});
        for (value, status, goes) in [
            // LIF-104
            ("true", started.clone(), false),
            ("11m", started.clone(), false),
            ("10m", started.clone(), true),
            ("10m", json!({}), false),
            ("nonsense", started, true),
        ] {
            let annotations = json!({"annotations": {"karpenter.sh/do-not-disrupt": value}});
            let protected = pod("protected", annotations, json!({}), status);
            let (evict, waiting) = evicted(&[protected, Arc::clone(&daemon)]);
            assert_eq!((evict.contains(&"protected".to_owned()), waiting), (goes, 2), "{value}");
            assert!(!evict.contains(&"daemon".to_owned()));
        }
    }

    #[test]
    fn some_pods_never_hold_a_drain_up() {
        let tolerating = |toleration: Value| pod("t", json!({}), json!({"tolerations": [toleration]}), json!({}));
        let disrupted = "karpenter.sh/disrupted";
        let table = [
            // LIF-099, LIF-105
            (pod("done", json!({}), json!({}), json!({"phase": "Succeeded"})), 0),
            (pod("failed", json!({}), json!({}), json!({"phase": "Failed"})), 0),
            (of_class("mirror", "", owner("v1", "Node")), 0),
            (plain("bare"), 1),
            // LIF-100
            (tolerating(json!({"key": disrupted, "operator": "Exists"})), 0),
            (
                tolerating(json!({"key": disrupted, "operator": "Equal", "effect": "NoSchedule"})),
                0,
            ),
            (tolerating(json!({"operator": "Exists"})), 0),
            (
                tolerating(json!({"key": disrupted, "operator": "Exists", "effect": "NoExecute"})),
                1,
            ),
            (
                tolerating(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})),
                1,
            ),
        ];
        for (pod, expected) in table {
            let shown = format!("{:?}", pod.shape.tolerations);
            assert_eq!(evicted(&[pod]).1, expected, "{shown}");
        }
    }

    fn deleted(pod: Arc<Pod>, deadline_in: i64) -> Option<i64> {
        let pods = [pod];
        let drain = drain(&pods, Some(now() + SignedDuration::from_secs(deadline_in)), now());
        assert!(drain.delete.is_empty() || drain.evict.is_empty(), "not both");
        (!drain.delete.is_empty()).then_some(drain.grace_seconds)
    }

    #[test]
    fn pods_are_deleted_in_time_for_their_grace() {
        let going = |deletion: i64| with_grace(6000, json!({"deletionTimestamp": at(deletion)}));
        // LIF-120
        assert_eq!(deleted(with_grace(60, json!({})), 210), None);
        assert_eq!(deleted(with_grace(60, json!({})), 59), Some(59));
        assert_eq!(deleted(with_grace(300, json!({})), 299), Some(299));
        assert_eq!(deleted(going(5910), 210), Some(210));
        // LIF-114
        assert_eq!(deleted(with_grace(60, json!({})), 60), None);
        assert_eq!(deleted(with_grace(900, json!({})), 300), Some(300));
        // LIF-116
        assert_eq!(deleted(going(200), 210), None);
        // LIF-115
        assert_eq!(deleted(with_grace(30, json!({})), -20), Some(1));
        // LIF-118
        let finished = pod(
            "p",
            json!({}),
            json!({"terminationGracePeriodSeconds": 9}),
            json!({"phase": "Failed"}),
        );
        assert_eq!(deleted(finished, 0), None);
        let stuck = with_grace(9, json!({"deletionTimestamp": at(-3600)}));
        let tolerating = pod(
            "p",
            json!({}),
            json!({"terminationGracePeriodSeconds": 9, "tolerations": [{"operator": "Exists"}]}),
            json!({}),
        );
        let without_grace = pod("p", json!({}), json!({}), json!({}));
        let mirror = with_grace(9, json!({"ownerReferences": [owner("v1", "Node")]}));
        for pod in [stuck, tolerating, without_grace, mirror] {
            assert_eq!(deleted(Arc::clone(&pod), 0), None, "{pod:?}");
        }
    }

    // LIF-117
    #[test]
    fn the_deadline_knows_no_groups_and_no_protection() {
        let pods = [
            with_grace(30, json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}})),
            with_grace(
                30,
                json!({"name": "daemon", "ownerReferences": [owner("apps/v1", "DaemonSet")]}),
            ),
        ];
        let drain = drain(&pods, Some(now() + SignedDuration::from_secs(10)), now());
        assert_eq!(names(&drain.delete), ["p", "daemon"]);
        assert_eq!((drain.waiting, drain.evict.len()), (2, 0));
    }
}
