//! Which pods of a node go next (LIF-098 to LIF-106, LIF-114 to LIF-118): pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kerf_api::{annotations, taints};
use kerf_model::duration::GoDuration;
use kerf_runtime::ObjectKey;
use kerf_state::lean::{LeanPod, LeanToleration};
use std::collections::BTreeSet;

/// How long past its deletion time a pod is waited for (LIF-098). The time already includes the pod's own grace.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// The priority classes of pods a cluster cannot do without (LIF-101).
const CRITICAL: [&str; 2] = ["system-cluster-critical", "system-node-critical"];

/// A pod as far as a drain looks at it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DrainPod {
    /// Namespace and name.
    pub(crate) key: ObjectKey,
    /// Its uid, so that a namesake is left alone (LIF-107).
    pub(crate) uid: String,
    /// Its termination grace period in seconds.
    pub(crate) grace_seconds: Option<i64>,
    /// The PersistentVolumeClaims it uses, by name in its namespace (LIF-091).
    pub(crate) volume_claims: Vec<String>,
    terminal: bool,
    deletion: Option<Timestamp>,
    tolerates_disruption: bool,
    mirror: bool,
    daemon: bool,
    critical: bool,
    protection: Protection,
}

/// What its do-not-disrupt annotation comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protection {
    None,
    /// For ever, or for as long as nobody knows when it started (DIS-054).
    Always,
    Until(Timestamp),
}

/// What to do with the pods of a node now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Drain<'a> {
    /// Delete these, with that many seconds of grace (LIF-114, LIF-115).
    pub(crate) delete: Vec<(&'a DrainPod, i64)>,
    /// Evict these (LIF-102).
    pub(crate) evict: Vec<&'a DrainPod>,
    /// How many pods the node still waits for, those above included (LIF-103).
    pub(crate) waiting: usize,
}

/// Decides on the pods of a node that has to be empty by `deadline`, if there is one.
pub(crate) fn drain<'a>(pods: &'a [DrainPod], deadline: Option<Timestamp>, now: Timestamp) -> Drain<'a> {
    let waiting: Vec<&DrainPod> = pods.iter().filter(|pod| pod.is_waiting(now)).collect();
    let expiring = |pod: &DrainPod| deadline.is_some_and(|deadline| pod.is_expiring(deadline, now));
    let granted = deadline.map_or(1, |deadline| deadline.duration_since(now).as_secs().max(1));
    let first = waiting.iter().map(|pod| pod.group()).min();
    let in_turn = waiting.iter().filter(|pod| Some(pod.group()) == first && pod.is_evictable(now));
    Drain {
        delete: waiting.iter().filter(|pod| expiring(pod)).map(|pod| (*pod, granted)).collect(),
        evict: in_turn.filter(|pod| !expiring(pod)).copied().collect(),
        waiting: waiting.len(),
    }
}

impl DrainPod {
    /// LIF-099: the node's end has to wait for it, or may have to.
    pub(crate) fn is_drainable(&self, now: Timestamp) -> bool {
        let stuck = self.deletion.is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER);
        !self.tolerates_disruption && !self.mirror && !stuck
    }

    fn is_waiting(&self, now: Timestamp) -> bool {
        self.is_drainable(now) && !self.terminal
    }

    /// DIS-062.
    fn is_evictable(&self, now: Timestamp) -> bool {
        let protected = match self.protection {
            Protection::None => false,
            Protection::Always => true,
            Protection::Until(end) => now < end,
        };
        self.is_waiting(now) && self.deletion.is_none() && !protected
    }

    /// LIF-114, LIF-116: only by deleting it now does it get the grace it asks for, or what is left of it.
    fn is_expiring(&self, deadline: Timestamp, now: Timestamp) -> bool {
        let Some(grace) = self.grace_seconds else {
            return false;
        };
        let left = deadline.duration_since(now);
        let too_late = self.deletion.is_none_or(|deletion| deletion > deadline);
        too_late && left < SignedDuration::from_secs(grace)
    }

    /// LIF-101: 0 goes first.
    fn group(&self) -> u8 {
        u8::from(self.critical) * 2 + u8::from(self.daemon)
    }
}

impl From<&LeanPod> for DrainPod {
    fn from(pod: &LeanPod) -> Self {
        let meta = &pod.metadata;
        let name = meta.name.clone().unwrap_or_default();
        let owners = meta.owner_references.as_deref().unwrap_or_default();
        let owned_by = |version: &str, kind: &str| {
            let is = |owner: &OwnerReference| owner.api_version == version && owner.kind == kind;
            owners.iter().any(is)
        };
        let class = pod.spec.priority_class_name.as_deref();
        Self {
            key: ObjectKey::new(meta.namespace.clone().unwrap_or_default(), name.clone()),
            uid: meta.uid.clone().unwrap_or_default(),
            grace_seconds: pod.spec.termination_grace_period_seconds,
            volume_claims: volume_claims(pod, &name),
            terminal: matches!(pod.status.phase.as_str(), "Succeeded" | "Failed"),
            deletion: meta.deletion_timestamp.as_ref().map(|time| time.0),
            tolerates_disruption: pod.spec.tolerations.iter().any(tolerates_disruption),
            mirror: owned_by("v1", "Node"),
            daemon: owned_by("apps/v1", "DaemonSet"),
            critical: class.is_some_and(|class| CRITICAL.contains(&class)),
            protection: protection(pod),
        }
    }
}

/// LIF-100: the taint has no value, so `Equal` matches an empty one only.
fn tolerates_disruption(toleration: &LeanToleration) -> bool {
    let taint = taints::disrupted();
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = match toleration.operator.as_str() {
        "Exists" => toleration.key.is_empty() || toleration.key == taint.key,
        "" | "Equal" => toleration.key == taint.key && toleration.value.is_empty(),
        _ => false,
    };
    effect && key
}

/// DIS-052 to DIS-054.
fn protection(pod: &LeanPod) -> Protection {
    let annotations = pod.metadata.annotations.as_ref();
    let Some(text) = annotations.and_then(|annotations| annotations.get(annotations::DO_NOT_DISRUPT)) else {
        return Protection::None;
    };
    if text == annotations::TRUE {
        return Protection::Always;
    }
    let Some(span) = text.parse::<GoDuration>().ok().filter(|span| *span > GoDuration::ZERO) else {
        return Protection::None;
    };
    let end = pod.status.start_time.as_ref().and_then(|start| start.0.checked_add(span.to_signed()).ok());
    end.map_or(Protection::Always, Protection::Until)
}

/// Named claims and those made for generic ephemeral volumes.
fn volume_claims(pod: &LeanPod, name: &str) -> Vec<String> {
    let volumes = pod.spec.volumes.iter();
    let claims: BTreeSet<String> = volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some(claim.claim_name.clone()),
            (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
            (None, None) => None,
        })
        .collect();
    claims.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn now() -> Timestamp {
        "2026-01-01T12:00:00Z".parse().expect("a timestamp")
    }

    fn seconds(by: i64) -> Timestamp {
        now() + SignedDuration::from_secs(by)
    }

    fn pod(name: &str, metadata: Value, spec: Value, status: Value) -> DrainPod {
        let mut meta = json!({"name": name, "namespace": "default", "uid": name});
        meta.as_object_mut().expect("an object").extend(metadata.as_object().cloned().unwrap_or_default());
        let pod: LeanPod =
            serde_json::from_value(json!({"metadata": meta, "spec": spec, "status": status})).expect("a pod");
        DrainPod::from(&pod)
    }

    fn plain(name: &str) -> DrainPod {
        pod(name, json!({}), json!({"terminationGracePeriodSeconds": 30}), json!({"phase": "Running"}))
    }

    fn of_class(name: &str, class: &str, owner: Value) -> DrainPod {
        pod(name, json!({"ownerReferences": [owner]}), json!({"priorityClassName": class}), json!({}))
    }

    fn owner(version: &str, kind: &str) -> Value {
        json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "o"})
    }

    fn names(pods: &[&DrainPod]) -> Vec<String> {
        pods.iter().map(|pod| pod.key.name.clone()).collect()
    }

    fn evicted(pods: &[DrainPod]) -> (Vec<String>, usize) {
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
            (vec!["important", "bare"], 5),
            (vec!["daemon"], 3),
            (vec!["critical"], 2),
            (vec!["critical-daemon"], 1),
            (vec![], 0),
        ] {
            let (evict, waiting) = evicted(&pods);
            assert_eq!((evict.clone(), waiting), (expected.iter().map(ToString::to_string).collect(), left));
            pods.retain(|pod| !evict.contains(&pod.key.name));
        }
    }

    #[test]
    fn a_group_that_waits_holds_the_later_ones_back() {
        let terminating = |ago: i64| {
            let at = seconds(-ago).to_string();
            pod("going", json!({"deletionTimestamp": at}), json!({}), json!({"phase": "Running"}))
        };
        let daemon = of_class("daemon", "", owner("apps/v1", "DaemonSet"));
        // LIF-102
        assert_eq!(evicted(&[terminating(60), daemon.clone()]), (vec![], 2));
        // LIF-106
        assert_eq!(evicted(&[terminating(61), daemon.clone()]), (vec!["daemon".to_owned()], 1));
        let protected = |value: &str, status: Value| {
            let annotations = json!({"annotations": {"karpenter.sh/do-not-disrupt": value}});
            pod("protected", annotations, json!({}), status)
        };
        let started = json!({"phase": "Running", "startTime": seconds(-600).to_string()});
        for (value, status, goes) in [
            // LIF-104
            ("true", started.clone(), false),
            ("11m", started.clone(), false),
            ("10m", started.clone(), true),
            ("10m", json!({}), false),
            ("nonsense", started, true),
        ] {
            let (evict, waiting) = evicted(&[protected(value, status), daemon.clone()]);
            assert_eq!((evict.contains(&"protected".to_owned()), waiting), (goes, 2), "{value}");
            assert!(!evict.contains(&"daemon".to_owned()));
        }
    }

    #[test]
    fn some_pods_never_hold_a_drain_up() {
        let tolerating = |toleration: Value| pod("t", json!({}), json!({"tolerations": [toleration]}), json!({}));
        let table = [
            // LIF-105
            (pod("done", json!({}), json!({}), json!({"phase": "Succeeded"})), 0),
            (pod("failed", json!({}), json!({}), json!({"phase": "Failed"})), 0),
            (of_class("mirror", "", owner("v1", "Node")), 0),
            (plain("bare"), 1),
            // LIF-100
            (tolerating(json!({"key": "karpenter.sh/disrupted", "operator": "Exists"})), 0),
            (tolerating(json!({"key": "karpenter.sh/disrupted", "operator": "Equal", "effect": "NoSchedule"})), 0),
            (tolerating(json!({"operator": "Exists"})), 0),
            (tolerating(json!({"key": "karpenter.sh/disrupted", "operator": "Exists", "effect": "NoExecute"})), 1),
            (tolerating(json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists"})), 1),
        ];
        for (pod, expected) in table {
            let name = pod.key.name.clone();
            assert_eq!(evicted(&[pod]).1, expected, "{name}");
        }
    }

    fn deleted(pod: DrainPod, deadline: i64) -> Option<i64> {
        let pods = [pod];
        let drain = drain(&pods, Some(seconds(deadline)), now());
        assert!(drain.delete.is_empty() || drain.evict.is_empty(), "not both");
        drain.delete.first().map(|(_, grace)| *grace)
    }

    #[test]
    fn pods_are_deleted_in_time_for_their_grace() {
        let with_grace = |grace: i64| pod("p", json!({}), json!({"terminationGracePeriodSeconds": grace}), json!({}));
        let going = |deletion: i64| {
            let meta = json!({"deletionTimestamp": seconds(deletion).to_string()});
            pod("p", meta, json!({"terminationGracePeriodSeconds": 6000}), json!({}))
        };
        // LIF-120
        assert_eq!(deleted(with_grace(60), 210), None);
        assert_eq!(deleted(with_grace(60), 59), Some(59));
        assert_eq!(deleted(with_grace(300), 299), Some(299));
        assert_eq!(deleted(going(5910), 210), Some(210));
        // LIF-114
        assert_eq!(deleted(with_grace(60), 60), None);
        // LIF-116
        assert_eq!(deleted(going(200), 210), None);
        // LIF-115
        assert_eq!(deleted(with_grace(30), -20), Some(1));
        // LIF-118
        assert_eq!(deleted(pod("p", json!({}), json!({}), json!({})), 0), None);
        assert_eq!(deleted(pod("p", json!({}), json!({"terminationGracePeriodSeconds": 9}), json!({"phase": "Failed"})), 0), None);
    }

    // LIF-117
    #[test]
    fn the_deadline_knows_no_groups_and_no_protection() {
        let spec = json!({"terminationGracePeriodSeconds": 30});
        let protected = json!({"annotations": {"karpenter.sh/do-not-disrupt": "true"}});
        let daemon = json!({"ownerReferences": [owner("apps/v1", "DaemonSet")]});
        let pods = [
            pod("protected", protected, spec.clone(), json!({})),
            pod("daemon", daemon, spec, json!({})),
        ];
        let drain = drain(&pods, Some(seconds(10)), now());
        let deleted: Vec<&DrainPod> = drain.delete.iter().map(|(pod, _)| *pod).collect();
        assert_eq!(names(&deleted), ["protected", "daemon"]);
        assert_eq!(drain.waiting, 2);
    }

    // LIF-091
    #[test]
    fn named_and_ephemeral_volume_claims_count() {
        let volumes = json!([
            {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "c", "emptyDir": {}},
        ]);
        let pod = pod("web", json!({}), json!({"volumes": volumes}), json!({}));
        assert_eq!(pod.volume_claims, ["data", "web-scratch"]);
    }
}
