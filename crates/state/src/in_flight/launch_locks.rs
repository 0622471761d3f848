//! Pods for which a claim is being created. No other loop may create one for them until the API server has answered.
//!
//! Two loops launch for pods that wait: provisioning, and disruption where its replacements take such pods in. Each decides on a snapshot
//! that does not show what the other is about to write.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The unique ids of the locked pods.
#[derive(Default, Debug)]
pub(crate) struct LaunchLocks(BTreeSet<Arc<str>>);

impl LaunchLocks {
    /// Whether a pod is locked.
    pub(crate) fn contains(&self, pod_uid: &str) -> bool {
        self.0.contains(pod_uid)
    }

    /// Locks pods.
    pub(crate) fn lock(&mut self, pod_uids: &[Arc<str>]) {
        self.0.extend(pod_uids.iter().cloned());
    }

    /// Unlocks pods.
    pub(crate) fn unlock(&mut self, pod_uids: &[Arc<str>]) {
        for uid in pod_uids {
            self.0.remove(uid);
        }
    }
}
