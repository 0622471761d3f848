//! Fairness after a deadline: the pods that the next pass plans if the last one did not reach all (SCH-047).
//!
//! The solver orders pods by itself, so the same pods would miss every deadline. The passes that follow therefore plan the pods that
//! were not reached, at most as many as the last pass reached, with an equal share for every namespace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kerf_model::plan::Plan;
use kerf_model::pod::Pod;

/// The pods that the last passes did not reach.
#[derive(Clone, Default, Debug)]
pub(crate) struct Fairness {
    /// Their unique ids.
    unreached: BTreeSet<Arc<str>>,
    /// How many pods the last pass reached.
    reached: usize,
}

impl Fairness {
    /// The pods that a pass plans, in the order of `pods`: all of them, unless some were not reached before.
    pub(crate) fn select(&mut self, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let waiting: BTreeSet<Arc<str>> = pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        self.unreached.retain(|uid| waiting.contains(uid));
        if self.unreached.is_empty() {
            return pods.to_vec();
        }
        let mut queues: BTreeMap<&str, VecDeque<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| self.unreached.contains(&pod.uid)) {
            queues.entry(&pod.namespace).or_default().push_back(pod);
        }
        let mut chosen: BTreeSet<&str> = BTreeSet::new();
        while chosen.len() < self.reached.max(1) {
            let before = chosen.len();
            for queue in queues.values_mut() {
                if chosen.len() < self.reached.max(1)
                    && let Some(pod) = queue.pop_front()
                {
                    chosen.insert(&pod.uid);
                }
            }
            if chosen.len() == before {
                break;
            }
        }
        pods.iter().filter(|pod| chosen.contains(&*pod.uid)).cloned().collect()
    }

    /// Records the plan that a pass made for these pods.
    pub(crate) fn note(&mut self, pods: &[Arc<Pod>], plan: &Plan) {
        for pod in pods {
            self.unreached.remove(&pod.uid);
        }
        self.unreached
            .extend(plan.unattempted.iter().map(|pod| Arc::clone(&pod.uid)));
        self.reached = pods.len().saturating_sub(plan.unattempted.len());
    }

    /// Whether some pods were not reached, so that another pass should follow at once.
    pub(crate) fn any_unreached(&self) -> bool {
        !self.unreached.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(namespace: &str, count: usize) -> Vec<Arc<Pod>> {
        let pod = |at| Arc::new(Pod::new(namespace, &format!("{namespace}-{at}")));
        (0..count).map(pod).collect()
    }

    /// A plan that reached so many of the pods, in their order.
    fn cut(pods: &[Arc<Pod>], reached: usize) -> Plan {
        Plan {
            unattempted: pods.get(reached..).unwrap_or_default().to_vec(),
            ..Plan::default()
        }
    }

    // SCH-047
    #[test]
    fn a_namespace_with_many_pods_cannot_keep_others_waiting() {
        let mut all = pods("greedy", 10_000);
        all.extend(pods("modest", 3));
        let mut fairness = Fairness::default();
        let first = fairness.select(&all);
        assert_eq!(first.len(), all.len());
        fairness.note(&first, &cut(&first, 100));
        assert!(fairness.any_unreached());
        let second = fairness.select(&all);
        assert_eq!(second.len(), 100, "no more than a pass gets through");
        assert_eq!(second.iter().filter(|pod| &*pod.namespace == "modest").count(), 3);
    }

    #[test]
    fn every_pod_is_reached_even_if_each_pass_reaches_one() {
        let mut all = pods("a", 4);
        all.extend(pods("b", 2));
        let (mut fairness, mut reached) = (Fairness::default(), BTreeSet::new());
        for _ in 0..all.len() {
            let now = fairness.select(&all);
            reached.extend(now.first().map(|pod| Arc::clone(&pod.uid)));
            fairness.note(&now, &cut(&now, 1));
        }
        assert_eq!(reached.len(), all.len());
        assert!(!fairness.any_unreached());
        assert_eq!(fairness.select(&all).len(), all.len(), "then all begin anew");
    }

    #[test]
    fn what_is_gone_any_unreached_nothing() {
        let all = pods("a", 3);
        let mut fairness = Fairness::default();
        fairness.note(&all, &cut(&all, 1));
        let left = pods("b", 2);
        assert_eq!(fairness.select(&left).len(), 2);
        assert!(!fairness.any_unreached());
    }
}
