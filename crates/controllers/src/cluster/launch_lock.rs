//! A guard that locks pods while a claim is created for them, so that no other loop creates one for them too.

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

/// Pods that are locked until this is dropped.
#[must_use = "the pods are unlocked when this is dropped"]
pub(crate) struct LaunchLock {
    cluster: Cluster,
    uids: Vec<Arc<str>>,
}

impl Cluster {
    /// Locks pods before a claim is created for them; see [`kerf_state::Mirror::lock_launch`].
    pub(crate) fn lock_for_launch<'a>(
        &self,
        pods: impl IntoIterator<Item = &'a Arc<Pod>>,
        known: &BTreeSet<&str>,
    ) -> Option<LaunchLock> {
        let uids = self.lock().mirror.lock_launch(pods, known)?;
        let cluster = self.clone();
        Some(LaunchLock { cluster, uids })
    }
}

impl Drop for LaunchLock {
    fn drop(&mut self) {
        self.cluster.lock().mirror.unlock_launch(&self.uids);
    }
}

#[cfg(test)]
mod tests {
    use kerf_cloud::FAKE_NODE_CLASS;
    use kerf_testkit::objects;
    use serde_json::{from_value, json};

    use super::*;
    use crate::cluster::Watched;
    use crate::context::Context;

    fn waiting(cluster: &Cluster, name: &str) -> Arc<Pod> {
        let pod = objects::unschedulable(objects::stored("shop", objects::pod(name, "1")));
        cluster.notify(Watched::apply(
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
        let planned = |times: &mut kerf_state::PodTimes| times.planned_onto("shop", "a", &"web-1".into());
        cluster.note_times(&a, planned);
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
