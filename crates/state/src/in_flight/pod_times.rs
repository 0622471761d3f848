//! When pods were first seen, decided on and planned, for pod latency metrics (SCH-078 to SCH-082, LIF-214, LIF-215).

use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The times of a pod, kept until it is deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PodTime {
    /// When it was first seen to be provisionable.
    pub acknowledged: Option<Timestamp>,
    /// When a place was first found or refused.
    pub decided: Option<Timestamp>,
    /// Since when a place has been found for it in every pass.
    pub schedulable: Option<Timestamp>,
    /// Since when that place has been in a pool whose nodes register.
    pub healthy: Option<Timestamp>,
    /// The claim it is to run on.
    pub claim: Option<Arc<str>>,
    /// Whether it is nominated to that claim's node.
    pub nominated: bool,
}

/// The times of all pods, by namespace and name.
#[derive(Default, Debug)]
pub struct PodTimes {
    pods: BTreeMap<(Arc<str>, Arc<str>), PodTime>,
}

/// The place that a pass found for a pod.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The place's pool has `NodeRegistrationHealthy` True.
    pub healthy_pool: bool,
    /// The claim, once its name is known.
    pub claim: Option<Arc<str>>,
    /// Whether the pod is nominated to the claim's node.
    pub nominated: bool,
}

impl PodTimes {
    /// Records that a provisionable pod was seen; only the first time counts (SCH-034).
    pub fn acknowledge(&mut self, namespace: &str, name: &str, now: Timestamp) {
        self.entry(namespace, name).acknowledged.get_or_insert(now);
    }

    /// Records that a pass found a place for a pod (`Some`) or none (`None`). Returns the time from acknowledgement to the first
    /// decision, once per pod, for the pods that were acknowledged (SCH-078). Bound and virtual pods are not to be recorded (SCH-081).
    pub fn decide(
        &mut self,
        namespace: &str,
        name: &str,
        placed: Option<Placed>,
        now: Timestamp,
    ) -> Option<SignedDuration> {
        let time = self.entry(namespace, name);
        match placed {
            Some(placed) => {
                time.schedulable.get_or_insert(now);
                time.healthy = placed.healthy_pool.then(|| time.healthy.unwrap_or(now));
                if placed.claim.is_some() {
                    time.claim = placed.claim;
                }
                time.nominated = placed.nominated;
            }
            None => {
                (time.schedulable, time.healthy, time.claim) = (None, None, None);
                time.nominated = false;
            }
        }
        if time.decided.is_some() {
            return None;
        }
        time.decided = Some(now);
        time.acknowledged.map(|seen| now.duration_since(seen))
    }

    /// Records the name of the claim created for a pod (SCH-082).
    pub fn planned_onto(&mut self, namespace: &str, name: &str, claim: &Arc<str>) {
        self.entry(namespace, name).claim = Some(Arc::clone(claim));
    }

    /// The times of a pod.
    pub fn get(&self, namespace: &str, name: &str) -> Option<&PodTime> {
        self.pods.get(&(Arc::from(namespace), Arc::from(name)))
    }

    /// The claim a pod is to run on.
    pub(crate) fn claim(&self, key: &(Arc<str>, Arc<str>)) -> Option<&Arc<str>> {
        self.pods.get(key)?.claim.as_ref()
    }

    /// Whether a pod is nominated to the node of that claim.
    pub(crate) fn is_nominated(&self, key: &(Arc<str>, Arc<str>)) -> bool {
        self.pods.get(key).is_some_and(|time| time.nominated)
    }

    /// Removes a pod that is gone.
    pub fn forget(&mut self, namespace: &Arc<str>, name: &Arc<str>) {
        self.pods.remove(&(Arc::clone(namespace), Arc::clone(name)));
    }

    fn entry(&mut self, namespace: &str, name: &str) -> &mut PodTime {
        self.pods.entry((Arc::from(namespace), Arc::from(name))).or_default()
    }
}
