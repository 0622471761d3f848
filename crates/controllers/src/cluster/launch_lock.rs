//! Pods a machine is being asked for: between a decision and the answer to the creation, nobody else may ask for one for them.
//!
//! Two loops launch for pods that wait: provisioning, and disruption where its replacements take such pods in. Each decides on a snapshot
//! that shows nothing of what the other is about to write.

use std::collections::BTreeSet;
use std::sync::Arc;

use kerf_model::pod::Pod;
use kerf_model::snapshot::Snapshot;

use super::Cluster;

/// The claims of a snapshot, by name.
pub(crate) fn claims_of(snapshot: &Snapshot) -> BTreeSet<&str> {
    snapshot
        .nodes
        .iter()
        .filter_map(|node| node.claim_name.as_deref())
        .collect()
}

/// Pods that are asked for until this is dropped.
#[must_use = "the pods are free again when this is dropped"]
pub(crate) struct LaunchLock {
    cluster: Cluster,
    uids: Vec<Arc<str>>,
}

impl Cluster {
    /// Takes pods before a machine is asked for; `None`, and none is taken, where somebody else was first: is asking, or has got a claim that
    /// the caller did not know when it decided. What moves is taken with its node, so only pods without a node count.
    pub(crate) fn lock_for_launch<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        known: &BTreeSet<&str>,
    ) -> Option<LaunchLock> {
        let waiting: Vec<&Arc<Pod>> = pods.into_iter().filter(|pod| pod.node_name.is_none()).collect();
        let mut guard = self.lock();
        let inner = &mut *guard;
        let times = inner.mirror.times();
        let is_planned = |pod: &Pod| {
            let planned = times.get(&pod.namespace, &pod.name);
            let claim = planned.and_then(|planned| planned.claim.as_deref());
            claim.is_some_and(|claim| !known.contains(claim) && inner.claims.get(claim).is_some())
        };
        if waiting
            .iter()
            .any(|pod| inner.launch_locks.contains(&pod.uid) || is_planned(pod))
        {
            return None;
        }
        let uids: Vec<Arc<str>> = waiting.iter().map(|pod| Arc::clone(&pod.uid)).collect();
        inner.launch_locks.extend(uids.iter().cloned());
        let cluster = self.clone();
        Some(LaunchLock { cluster, uids })
    }
}

impl Drop for LaunchLock {
    fn drop(&mut self) {
        let mut inner = self.cluster.lock();
        for uid in &self.uids {
            inner.launch_locks.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use serde_json::{Value, from_value, json};

    use super::*;
    use crate::cluster::Watched;
    use crate::context::Context;

    fn waiting(cluster: &Cluster, name: &str) -> Arc<Pod> {
        let conditions = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]);
        let pod: Value = json!({
            "metadata": {"namespace": "shop", "name": name, "uid": name},
            "spec": {"containers": []}, "status": {"phase": "Pending", "conditions": conditions},
        });
        cluster.tell(Watched::apply(
            cluster,
            from_value::<kerf_state::lean::LeanPod>(pod).expect("a pod"),
        ));
        cluster.pod("shop", name).expect("it is known")
    }

    #[tokio::test]
    async fn a_pod_is_asked_for_once() {
        let context = Context::without_api();
        let cluster = &context.cluster;
        let [a, b, c] = ["a", "b", "c"].map(|name| waiting(cluster, name));
        let ask = |pods: &[&Arc<Pod>], known: &[&str]| {
            let known = known.iter().copied().collect();
            cluster.lock_for_launch(pods.iter().copied(), &known)
        };
        let first = ask(&[&a, &b], &[]).expect("nobody asks for them");
        assert!(ask(&[&b, &c], &[]).is_none());
        let second = ask(&[&c], &[]).expect("refused together with b, it was not taken");
        drop(first);
        let again = ask(&[&b], &[]).expect("free again");
        drop((again, second));
        let class = json!({"group": FAKE_NODE_CLASS.group, "kind": FAKE_NODE_CLASS.kind, "name": "default"});
        let claim = json!({
            "metadata": {"name": "web-1", "uid": "web-1", "resourceVersion": "1"},
            "spec": {"requirements": [], "nodeClassRef": class},
        });
        cluster.with_times(|times| times.planned_onto("shop", "a", &"web-1".into()));
        assert!(ask(&[&a], &[]).is_some(), "the claim it was for is gone");
        cluster.created(from_value(claim).expect("a claim"));
        assert!(ask(&[&a], &[]).is_none(), "it has a machine");
        assert!(
            ask(&[&a], &["web-1"]).is_some(),
            "who knew of it finds that it has no room"
        );
        assert!(ask(&[&b, &c], &[]).is_some());
    }
}
