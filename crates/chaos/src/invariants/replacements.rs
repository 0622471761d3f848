//! No two machines for one need: no machine is requested while those being launched could hold every pod that needs a place.
//!
//! Room is judged by cpu, by the number of pods and by the labels of pools, so nothing is said while a pod asks for more. The pods of the
//! worlds ask for equal memory, so their number stands for it. A machine counts with what was asked for: that it has more may not be known
//! yet to who asks for the next, whose news may be late. A pod counts as needing a place for a while after it stopped to, because a
//! decision may be that old.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Invariant;
use crate::caller::Caller;
use crate::view::{Claim, Event, Node, Pod, View};

/// How long a need is remembered.
const MEMORY: Duration = Duration::from_secs(60);
/// With more pods than this, looking at each machine for each costs more than it shows.
const PODS_MAX: usize = 1000;
/// The most a daemon of the worlds asks for.
const DAEMON_CPU_M: i64 = 100;

#[derive(Default)]
pub(crate) struct Replacements {
    /// Pods that need a place or did lately, by uid; and since when not any more.
    needs: BTreeMap<String, (Pod, Option<Duration>)>,
    /// Pods that left their node, and when: a decision to remove the node has planned for them.
    gone: Vec<(Duration, Pod)>,
    /// When a claim was made, by uid.
    made: BTreeMap<String, Duration>,
}

/// A pod that waits for a place, or will have to move because its node goes.
fn needs_place(seen: &View, pod: &Pod) -> bool {
    if pod.is_finished() || pod.is_daemon() {
        return false;
    }
    let Some(node) = &pod.node else { return true };
    let Some(node) = seen.nodes.get(node) else { return true };
    let claim = seen.claim_of(node);
    let healthy = node.ready != Some(false);
    !healthy
        || node.deleting
        || node.is_disrupted()
        || claim.is_none_or(|claim| claim.deleting || claim.disruption_reason.is_some())
}

/// Room on a machine on its way.
struct Room {
    cpu_m: i64,
    pods: i64,
}

/// What a claim asks for, less its daemons and the pods that run there.
fn room(seen: &View, claim: &Claim) -> Room {
    let daemons = seen.workloads.values().filter(|is_daemon| **is_daemon).count();
    let daemons = i64::try_from(daemons).unwrap_or(0);
    let node = seen.nodes.values().find(|node| node.provider_id == claim.provider_id);
    let bound = node.into_iter().flat_map(|node| seen.pods_on(&node.name));
    let left = Room {
        cpu_m: claim.wanted_cpu_m - DAEMON_CPU_M * daemons,
        pods: claim.wanted_pods - daemons,
    };
    bound
        .filter(|pod| !pod.is_daemon() && !pod.is_finished())
        .fold(left, |left, pod| Room {
            cpu_m: left.cpu_m - pod.cpu_m,
            pods: left.pods - 1,
        })
}

/// Whether the pods fit, the largest first, each to the first machine that has room.
fn fit(seen: &View, coming: &[&Claim], mut pods: Vec<&Pod>) -> bool {
    let mut machines: Vec<(&Claim, Room)> = coming.iter().map(|claim| (*claim, room(seen, claim))).collect();
    pods.sort_by_key(|pod| -pod.cpu_m);
    pods.into_iter().all(|pod| {
        let suits = |claim: &Claim| {
            let pool = seen.pools.get(&claim.pool);
            pool.is_some_and(|pool| {
                pod.selector
                    .iter()
                    .all(|(key, value)| pool.labels.get(key) == Some(value))
            })
        };
        let place = machines
            .iter_mut()
            .find(|(claim, left)| suits(claim) && left.cpu_m >= pod.cpu_m && left.pods > 0);
        place
            .map(|(_, left)| {
                left.cpu_m -= pod.cpu_m;
                left.pods -= 1;
            })
            .is_some()
    })
}

impl Replacements {
    fn update(&mut self, seen: &View, pod: &Pod) {
        if needs_place(seen, pod) {
            self.needs.insert(pod.uid.clone(), (pod.clone(), None));
        } else if let Some((_, until)) = self.needs.get_mut(&pod.uid) {
            until.get_or_insert(seen.elapsed);
        }
    }

    fn note(&mut self, seen: &View, event: &Event) {
        let node = match event {
            Event::Pod(diff) => {
                match (&diff.before, &diff.after) {
                    (_, Some(pod)) => self.update(seen, pod),
                    (Some(pod), None) => {
                        if let Some((_, until)) = self.needs.get_mut(&pod.uid) {
                            until.get_or_insert(seen.elapsed);
                        }
                        if pod.node.is_some() && !pod.is_daemon() {
                            self.gone.push((seen.elapsed, pod.clone()));
                        }
                    }
                    (None, None) => {}
                }
                None
            }
            Event::Node(diff) => diff
                .after
                .as_ref()
                .or(diff.before.as_ref())
                .map(|node| node.name.clone()),
            Event::Claim(diff) => {
                let claim = diff
                    .after
                    .as_ref()
                    .or(diff.before.as_ref())
                    .filter(|claim| !claim.provider_id.is_empty());
                let node = |claim: &Claim| seen.nodes.values().find(|node| node.provider_id == claim.provider_id);
                claim.and_then(node).map(|node| node.name.clone())
            }
            _ => None,
        };
        for pod in node.iter().flat_map(|name| seen.pods_on(name)) {
            self.update(seen, pod);
        }
    }
}

impl Invariant for Replacements {
    fn name(&self) -> &'static str {
        "one machine per need"
    }

    fn after(&mut self, seen: &View, _caller: Caller, event: &Event) -> Option<String> {
        self.note(seen, event);
        let Event::Claim(diff) = event else { return None };
        let new = diff.after.as_ref().filter(|_| diff.before.is_none())?;
        self.made.insert(new.uid.clone(), seen.elapsed);
        // A process that has not received a claim cannot count on it.
        if seen.may_be_misled() {
            return None;
        }
        if seen.pools.get(&new.pool).is_some_and(|pool| pool.is_static) {
            return None;
        }
        let lately = |until: Option<Duration>| until.is_none_or(|until| seen.elapsed.saturating_sub(until) < MEMORY);
        self.needs.retain(|_, (_, until)| lately(*until));
        self.gone.retain(|(at, _)| seen.elapsed.saturating_sub(*at) < MEMORY);
        let left = |pod: &&Pod| {
            let node = pod.node.as_ref().and_then(|node| seen.nodes.get(node));
            node.is_none_or(Node::is_disrupted) && !self.needs.contains_key(&pod.uid)
        };
        let gone = self.gone.iter().map(|(_, pod)| pod).filter(left);
        let pods: Vec<&Pod> = self.needs.values().map(|(pod, _)| pod).chain(gone).collect();
        if pods.iter().any(|pod| pod.is_picky) || pods.len() > PODS_MAX {
            return None;
        }
        let (beside, coming): (Vec<&Claim>, Vec<&Claim>) = seen
            .claims
            .values()
            .filter(|claim| {
                let ended = claim.deleting || seen.gone.contains(&claim.provider_id);
                !ended && !claim.is_true("Initialized") && claim.uid != new.uid
            })
            // A plan follows the weights of pools: what it asks for in one was no choice for pods it put into another.
            .partition(|claim| claim.pool != new.pool && self.made.get(&claim.uid) == Some(&seen.elapsed));
        let count = pods.len();
        // Machines of one plan together ask for what its pods do.
        let at_once: i64 = beside.iter().chain([&new]).map(|claim| room(seen, claim).cpu_m).sum();
        if !beside.is_empty() && at_once > pods.iter().map(|pod| pod.cpu_m).sum() {
            return Some(format!(
                "{} is one of several in one instant that ask for more than {count} pods",
                new.name
            ));
        }
        fit(seen, &coming, pods).then(|| {
            let names: Vec<&str> = coming.iter().map(|claim| claim.name.as_str()).collect();
            format!("{} is asked for although {count} pods fit {names:?}", new.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Diff, Pool};

    /// A world and the rule that observes it.
    struct World {
        seen: View,
        rule: Replacements,
    }

    impl World {
        fn new() -> Self {
            let mut seen = View::default();
            for pool in ["a", "b"] {
                seen.pools.insert(pool.to_owned(), Pool::default());
            }
            let rule = Replacements::default();
            Self { seen, rule }
        }

        fn pod(&mut self, before: Option<&Pod>, after: Option<Pod>) {
            let key = before.or(after.as_ref()).map(|pod| pod.key.clone()).unwrap_or_default();
            match &after {
                Some(pod) => self.seen.pods.insert(key, pod.clone()),
                None => self.seen.pods.remove(&key),
            };
            let before = before.cloned();
            let event = Event::Pod(Diff { before, after });
            assert_eq!(self.rule.after(&self.seen, Caller::Others, &event), None);
        }

        fn node(&mut self, node: &Node) {
            self.seen.nodes.insert(node.name.clone(), node.clone());
            let (before, after) = (None, Some(node.clone()));
            let event = Event::Node(Diff { before, after });
            assert_eq!(self.rule.after(&self.seen, Caller::Kerf, &event), None);
        }

        fn claim(&mut self, pool: &str, cpus: i64) -> Option<String> {
            self.claim_for(pool, cpus, cpus)
        }

        fn claim_for(&mut self, pool: &str, cpus: i64, pods: i64) -> Option<String> {
            let name = self.seen.claims.len().to_string();
            let claim = Claim {
                name: name.clone(),
                uid: name.clone(),
                pool: pool.to_owned(),
                wanted_cpu_m: cpus * 1000,
                wanted_pods: pods,
                ..Claim::default()
            };
            self.seen.claims.insert(name, claim.clone());
            let (before, after) = (None, Some(claim));
            self.rule
                .after(&self.seen, Caller::Kerf, &Event::Claim(Diff { before, after }))
        }
    }

    fn one_core_pod(index: usize, node: Option<&str>) -> Pod {
        Pod {
            key: index.to_string(),
            uid: index.to_string(),
            cpu_m: 1000,
            node: node.map(str::to_owned),
            ..Pod::default()
        }
    }

    fn judge(pods: usize, claims: &[(&str, i64)]) -> Option<String> {
        let mut world = World::new();
        for index in 0..pods {
            world.pod(None, Some(one_core_pod(index, None)));
        }
        let found = claims.iter().filter_map(|(pool, cpus)| world.claim(pool, *cpus));
        found.last()
    }

    #[test]
    fn the_same_pods_get_no_second_machine() {
        assert!(judge(3, &[("a", 2), ("a", 1)]).is_none());
        assert!(judge(3, &[("a", 3), ("a", 3)]).is_some());
        assert!(judge(3, &[("a", 2), ("a", 1), ("a", 1)]).is_some());
        assert!(judge(0, &[("a", 1)]).is_some());
    }

    #[test]
    fn a_machine_holds_no_more_pods_than_it_was_asked_for() {
        for (asked_for, is_needed) in [(1, true), (2, false)] {
            let mut world = World::new();
            world.pod(None, Some(one_core_pod(0, None)));
            assert_eq!(world.claim_for("a", 2, asked_for), None);
            world.pod(None, Some(one_core_pod(1, None)));
            assert_eq!(world.claim("a", 1).is_none(), is_needed);
        }
    }

    #[test]
    fn a_plan_may_ask_in_several_pools_for_what_its_pods_need() {
        // The second would fit the first, whose pool the plan did not choose for it.
        assert!(judge(3, &[("a", 2), ("b", 1)]).is_none());
        assert!(judge(3, &[("a", 3), ("b", 3)]).is_some());
        assert!(judge(3, &[("a", 3), ("b", 1)]).is_some());
    }

    #[test]
    fn a_pod_that_has_just_gone_counts_where_its_node_goes() {
        let mut node = Node {
            name: "n".to_owned(),
            provider_id: "p".to_owned(),
            ready: Some(true),
            ..Node::default()
        };
        for taken in [false, true] {
            let mut world = World::new();
            let bound = one_core_pod(0, Some("n"));
            let claim = Claim {
                name: "old".to_owned(),
                provider_id: "p".to_owned(),
                conditions: [("Initialized".to_owned(), "True".to_owned())].into(),
                ..Claim::default()
            };
            world.seen.claims.insert(claim.name.clone(), claim);
            node.taints.clear();
            world.node(&node);
            world.pod(None, Some(bound.clone()));
            world.pod(Some(&bound), None);
            if taken {
                node.taints = vec!["karpenter.sh/disrupted".to_owned()];
                world.node(&node);
            }
            assert_eq!(world.claim("a", 1).is_none(), taken);
        }
    }
}
