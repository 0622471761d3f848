//! Whose turn it is after a deadline cut a pass short, so that nobody's pods starve behind another's (SCH-047).
//!
//! The solver takes pods in an order of its own, so pods that were not reached might never be: those before them would use up every
//! deadline. Pods that were not reached are therefore owed an attempt: the following passes are about owed pods alone, and about no more
//! than the last one got through, with an equal share for every namespace.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use kerf_model::plan::Plan;
use kerf_model::pod::Pod;

/// Pods that are owed an attempt.
#[derive(Default, Debug)]
pub(crate) struct Turns {
    owed: BTreeSet<Arc<str>>,
    /// How many pods the last pass got through; at least one.
    reached: usize,
}

impl Turns {
    /// The pods a pass is to be about: all of them unless some are owed an attempt. The order stays.
    pub(crate) fn take(&mut self, pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
        let waiting: BTreeSet<Arc<str>> = pods.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        self.owed.retain(|uid| waiting.contains(uid));
        if self.owed.is_empty() {
            return pods.to_vec();
        }
        let mut queues: BTreeMap<&str, VecDeque<&Arc<Pod>>> = BTreeMap::new();
        for pod in pods.iter().filter(|pod| self.owed.contains(&pod.uid)) {
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

    /// A pass about these pods made this plan.
    pub(crate) fn done(&mut self, pods: &[Arc<Pod>], plan: &Plan) {
        for pod in pods {
            self.owed.remove(&pod.uid);
        }
        self.owed
            .extend(plan.unattempted.iter().map(|pod| Arc::clone(&pod.uid)));
        self.reached = pods.len().saturating_sub(plan.unattempted.len());
    }

    /// Whether another pass should follow at once.
    pub(crate) fn any_owed(&self) -> bool {
        !self.owed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kerf_model::intern::Interner;
    use kerf_state::lean::LeanPod;
    use kerf_state::{Conventions, Converter};
    use serde_json::json;

    fn pods(namespace: &str, count: usize) -> Vec<Arc<Pod>> {
        let mut converter = Converter::new(Arc::new(Interner::default()), &Conventions::default());
        let pod = |at| {
            let name = format!("{namespace}-{at}");
            let lean: LeanPod =
                serde_json::from_value(json!({"metadata": {"name": name, "namespace": namespace, "uid": name}}))
                    .expect("a pod");
            Arc::new(converter.pod(&lean).pod)
        };
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
        let mut turns = Turns::default();
        let first = turns.take(&all);
        assert_eq!(first.len(), all.len());
        turns.done(&first, &cut(&first, 100));
        assert!(turns.any_owed());
        let second = turns.take(&all);
        assert_eq!(second.len(), 100, "no more than a pass gets through");
        assert_eq!(second.iter().filter(|pod| &*pod.namespace == "modest").count(), 3);
    }

    #[test]
    fn every_pod_has_its_turn_even_if_each_pass_reaches_one() {
        let mut all = pods("a", 4);
        all.extend(pods("b", 2));
        let (mut turns, mut reached) = (Turns::default(), BTreeSet::new());
        for _ in 0..all.len() {
            let now = turns.take(&all);
            reached.extend(now.first().map(|pod| Arc::clone(&pod.uid)));
            turns.done(&now, &cut(&now, 1));
        }
        assert_eq!(reached.len(), all.len());
        assert!(!turns.any_owed());
        assert_eq!(turns.take(&all).len(), all.len(), "then all begin anew");
    }

    #[test]
    fn what_is_gone_is_owed_nothing() {
        let all = pods("a", 3);
        let mut turns = Turns::default();
        turns.done(&all, &cut(&all, 1));
        let left = pods("b", 2);
        assert_eq!(turns.take(&left).len(), 2);
        assert!(!turns.any_owed());
    }
}
