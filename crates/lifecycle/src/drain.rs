//! Which pods leave a node next (LIF-098 to LIF-106, LIF-114 to LIF-118).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kerf_disruption::{evictable, tolerates_disruption};
use kerf_model::pod::{Owner, Pod};

/// How long a drain waits for a pod after its deletion time (LIF-098). That time already includes the pod's own grace period.
const STUCK_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// What to do with the pods of a node now.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drain<'a> {
    /// Pods to delete, because they would not end by the deadline otherwise (LIF-114).
    pub delete: Vec<&'a Pod>,
    /// The grace period the deleted pods get, in seconds: the time until the deadline, at least one (LIF-115).
    pub grace_seconds: i64,
    /// Pods to evict (LIF-102).
    pub evict: Vec<&'a Pod>,
    /// How many pods the drain waits for, those above included (LIF-103).
    pub waiting: usize,
}

/// Decides which pods of a node to delete and to evict now. The node has to be empty by `deadline`, if there is one.
pub fn drain(pods: &[Arc<Pod>], deadline: Option<Timestamp>, now: Timestamp) -> Drain<'_> {
    let waiting: Vec<&Pod> = pods
        .iter()
        .map(|pod| &**pod)
        .filter(|pod| is_waiting(pod, now))
        .collect();
    let expiring = |pod: &Pod| deadline.is_some_and(|deadline| is_expiring(pod, deadline, now));
    let first = waiting.iter().map(|pod| group(pod)).min();
    let of_first_group = waiting.iter().filter(|pod| Some(group(pod)) == first);
    let evictable = of_first_group.filter(|pod| evictable(pod, now));
    Drain {
        delete: waiting.iter().filter(|pod| expiring(pod)).copied().collect(),
        grace_seconds: deadline.map_or(1, |deadline| deadline.duration_since(now).as_secs().max(1)),
        evict: evictable.filter(|pod| !expiring(pod)).copied().collect(),
        waiting: waiting.len(),
    }
}

/// Whether a drain waits for the pod as long as it runs (LIF-099). Static pods, pods that tolerate the taint of disruption and pods stuck
/// in deletion do not count.
pub fn is_drainable(pod: &Pod, now: Timestamp) -> bool {
    let stuck = pod
        .deletion
        .is_some_and(|deletion| now.duration_since(deletion) > STUCK_AFTER);
    !stuck && pod.owner != Owner::Node && !tolerates_disruption(pod)
}

fn is_waiting(pod: &Pod, now: Timestamp) -> bool {
    is_drainable(pod, now) && !pod.phase.is_terminal()
}

/// Whether the pod has to be deleted now to end by the deadline: its grace period is longer than the time left (LIF-114, LIF-116, LIF-118).
fn is_expiring(pod: &Pod, deadline: Timestamp, now: Timestamp) -> bool {
    let lasts_longer = pod.deletion.is_none_or(|deletion| deletion > deadline);
    let left = deadline.duration_since(now);
    let asks_for_more = pod
        .grace_seconds
        .is_some_and(|grace| left < SignedDuration::from_secs(grace));
    lasts_longer && asks_for_more
}

/// The pod's place in the drain order: all pods of a lower group leave before those of a higher one (LIF-101).
fn group(pod: &Pod) -> u8 {
    u8::from(pod.critical) * 2 + u8::from(pod.owner == Owner::DaemonSet)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use kerf_model::pod::{DoNotDisrupt, Phase, PodShape};
    use kerf_model::taint::{Effect, Toleration, TolerationOperator};

    fn now() -> Timestamp {
        fixture::at("2026-01-01T12:00:00Z")
    }

    fn at(seconds: i64) -> Timestamp {
        now() + SignedDuration::from_secs(seconds)
    }

    /// A running pod, changed.
    fn changed_pod(name: &str, change: impl FnOnce(&mut Pod)) -> Arc<Pod> {
        let mut pod = fixture::running_pod(name);
        change(&mut pod);
        Arc::new(pod)
    }

    fn owned(name: &str, owner: Owner, critical: bool) -> Arc<Pod> {
        changed_pod(name, |pod| (pod.owner, pod.critical) = (owner, critical))
    }

    fn tolerating(key: Option<&str>, operator: TolerationOperator, effect: Option<Effect>) -> Arc<Pod> {
        let toleration = Toleration {
            key: key.map(Arc::from),
            operator,
            value: "".into(),
            effect,
        };
        let shape = PodShape {
            tolerations: vec![toleration],
            ..PodShape::default()
        };
        changed_pod("tolerating", |pod| {
            pod.shape = Arc::new(shape);
            pod.grace_seconds = Some(9);
        })
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
        let mut pods = vec![
            owned("critical-daemon", Owner::DaemonSet, true),
            owned("critical", Owner::ReplicaSet, true),
            owned("daemon", Owner::DaemonSet, false),
            owned("important", Owner::ReplicaSet, false),
            owned("bare", Owner::None, false),
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
        let terminating = |ago: i64| changed_pod("going", |pod| pod.deletion = Some(at(-ago)));
        let daemon = owned("daemon", Owner::DaemonSet, false);
        // LIF-102
        assert_eq!(evicted(&[terminating(60), Arc::clone(&daemon)]), (vec![], 2));
        // LIF-098, LIF-106
        assert_eq!(
            evicted(&[terminating(61), Arc::clone(&daemon)]),
            (vec!["daemon".to_owned()], 1)
        );
        let minutes = |minutes: i64| DoNotDisrupt::ForNanos(minutes * 60_000_000_000);
        let started = Some(at(-600));
        for (annotation, started, goes) in [
            // LIF-104
            (DoNotDisrupt::Always, started, false),
            (minutes(11), started, false),
            (minutes(10), started, true),
            (minutes(10), None, false),
            (DoNotDisrupt::Invalid("nonsense".into()), started, true),
        ] {
            let protected = changed_pod("protected", |pod| {
                pod.do_not_disrupt = annotation.clone();
                pod.started = started;
            });
            let (evict, waiting) = evicted(&[protected, Arc::clone(&daemon)]);
            assert_eq!(
                (evict.contains(&"protected".to_owned()), waiting),
                (goes, 2),
                "{annotation:?}"
            );
            assert!(!evict.contains(&"daemon".to_owned()));
        }
    }

    #[test]
    fn some_pods_never_hold_a_drain_up() {
        use TolerationOperator::{Equal, Exists};
        let disrupted = Some("karpenter.sh/disrupted");
        let table = [
            // LIF-099, LIF-105
            (changed_pod("done", |pod| pod.phase = Phase::Succeeded), 0),
            (changed_pod("failed", |pod| pod.phase = Phase::Failed), 0),
            (owned("mirror", Owner::Node, false), 0),
            (owned("bare", Owner::None, false), 1),
            // LIF-100
            (tolerating(disrupted, Exists, None), 0),
            (tolerating(disrupted, Equal, Some(Effect::NoSchedule)), 0),
            (tolerating(None, Exists, None), 0),
            (tolerating(disrupted, Exists, Some(Effect::NoExecute)), 1),
            (tolerating(Some("node.kubernetes.io/unschedulable"), Exists, None), 1),
        ];
        for (pod, expected) in table {
            let shown = format!("{} {:?}", pod.name, pod.shape.tolerations);
            assert_eq!(evicted(&[pod]).1, expected, "{shown}");
        }
    }

    /// The grace period the pod is deleted with, if it is, when the deadline is `seconds` away.
    fn deleted(pod: Arc<Pod>, seconds: i64) -> Option<i64> {
        let pods = [pod];
        let drain = drain(&pods, Some(at(seconds)), now());
        assert!(drain.delete.is_empty() || drain.evict.is_empty(), "not both");
        (!drain.delete.is_empty()).then_some(drain.grace_seconds)
    }

    #[test]
    fn pods_are_deleted_in_time_for_their_grace() {
        let with_grace = |seconds: i64| changed_pod("p", |pod| pod.grace_seconds = Some(seconds));
        let going = |grace: i64, deletion: i64| {
            changed_pod("p", |pod| {
                pod.grace_seconds = Some(grace);
                pod.deletion = Some(at(deletion));
            })
        };
        let table = [
            // LIF-120
            (with_grace(60), 210, None),
            (with_grace(60), 59, Some(59)),
            (with_grace(300), 299, Some(299)),
            (going(6000, 5910), 210, Some(210)),
            // LIF-114
            (with_grace(60), 60, None),
            (with_grace(900), 300, Some(300)),
            // LIF-116
            (going(6000, 200), 210, None),
            // LIF-115
            (with_grace(30), -20, Some(1)),
            // LIF-118: finished, stuck, tolerating, without a grace period, static.
            (
                changed_pod("p", |pod| (pod.grace_seconds, pod.phase) = (Some(9), Phase::Failed)),
                0,
                None,
            ),
            (going(9, -3600), 0, None),
            (tolerating(None, TolerationOperator::Exists, None), 0, None),
            (changed_pod("p", |pod| pod.grace_seconds = None), 0, None),
            (
                changed_pod("p", |pod| (pod.grace_seconds, pod.owner) = (Some(9), Owner::Node)),
                0,
                None,
            ),
        ];
        for (pod, seconds, expected) in table {
            assert_eq!(
                deleted(Arc::clone(&pod), seconds),
                expected,
                "{pod:?} in {seconds} seconds"
            );
        }
    }

    // LIF-117
    #[test]
    fn the_deadline_knows_no_groups_and_no_protection() {
        let with_grace = |name: &str, change: fn(&mut Pod)| {
            changed_pod(name, |pod| {
                pod.grace_seconds = Some(30);
                change(pod);
            })
        };
        let pods = [
            with_grace("p", |pod| pod.do_not_disrupt = DoNotDisrupt::Always),
            with_grace("daemon", |pod| pod.owner = Owner::DaemonSet),
        ];
        let drain = drain(&pods, Some(at(10)), now());
        assert_eq!(names(&drain.delete), ["p", "daemon"]);
        assert_eq!((drain.waiting, drain.evict.len()), (2, 0));
    }
}
