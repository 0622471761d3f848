//! Pods promised to NodeClaims that are not launched yet.
//!
//! Upstream stops all planning until every NodeClaim is launched (SCH-075). Kerf goes on, under this rule:
//!
//! - The creator of a claim promises pods to it ([`crate::Mirror::promise`]). While the claim exists and is not launched, these pods are
//!   not pending. The snapshot shows the claim as a machine without provider id that holds exactly these pods: its allocatable is what the
//!   claim requests, and all of it is used. So no pod is planned twice, topology and affinity of later pods count the promised ones, and
//!   the pool's limits see the machine's capacity as pessimistically as the plan that made it (SCH-148).
//! - A promised pod that is bound elsewhere or gone frees its share of the claim: the machine comes anyway, so the next pass may
//!   place another pod there. (kube-scheduler binds whichever pod it looks at first to the first machine that is up.) So does a pod that was
//!   to leave a machine which stays after all.
//! - The promise ends when the claim is launched, is being deleted or is gone. From then on the pods are pending again; a launched claim
//!   is a machine like any other and takes them back by its real size.
//! - A claim without provider id and without a promise was not made in this process's life, or for no pods in particular. It blocks
//!   planning as upstream's rule says, until it is launched or gone. So promises may live in memory: after a restart the rule falls back to
//!   upstream's. The wait is limited: after it the claim is adopted ([`crate::Mirror::adopt`]) and is a machine on its way that holds
//!   nothing yet.

use crate::key::Key;
use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod as a promise names it: by name and unique id, since names are used again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PromisedPod {
    pub(crate) key: Key,
    pub(crate) uid: Arc<str>,
    pub(crate) requests: Resources,
}

/// The pods that one claim was created for.
#[derive(Clone, Debug)]
pub(crate) struct Promise {
    pub(crate) pods: Vec<PromisedPod>,
    pub(crate) capacity: Resources,
    /// The requests of the pods that left meanwhile.
    pub(crate) freed: Resources,
}

/// All promises, by claim name.
#[derive(Default, Debug)]
pub(crate) struct Promises {
    by_claim: BTreeMap<Arc<str>, Promise>,
    by_pod: BTreeMap<Key, Arc<str>>,
}

impl Promises {
    /// Promises pods to a claim and returns the claims that lose a pod by it.
    pub(crate) fn give(&mut self, claim: &Arc<str>, pods: &[Arc<Pod>], capacity: Resources) -> Vec<Arc<str>> {
        let named = |pod: &Arc<Pod>| PromisedPod {
            key: (Arc::clone(&pod.namespace), Arc::clone(&pod.name)),
            uid: Arc::clone(&pod.uid),
            requests: pod.shape.requests.clone(),
        };
        let pods: Vec<PromisedPod> = pods.iter().map(named).collect();
        let losers: Vec<Arc<str>> = pods.iter().filter_map(|pod| self.withdraw(&pod.key)).collect();
        for pod in &pods {
            self.by_pod.insert(pod.key.clone(), Arc::clone(claim));
        }
        let freed = Resources::new();
        self.by_claim
            .insert(Arc::clone(claim), Promise { pods, capacity, freed });
        losers
    }

    /// Ends a claim's promise and returns its pods.
    pub(crate) fn end(&mut self, claim: &Arc<str>) -> Option<Vec<Key>> {
        let promise = self.by_claim.remove(claim)?;
        let keys: Vec<Key> = promise.pods.into_iter().map(|pod| pod.key).collect();
        for key in &keys {
            self.by_pod.remove(key);
        }
        Some(keys)
    }

    /// Ends the promise to one pod, because it is bound or gone, and returns the claim.
    pub(crate) fn withdraw(&mut self, pod: &Key) -> Option<Arc<str>> {
        let claim = self.by_pod.remove(pod)?;
        if let Some(promise) = self.by_claim.get_mut(&claim) {
            let Promise { pods, freed, .. } = promise;
            for left in pods.extract_if(.., |promised| promised.key == *pod) {
                freed.add(&left.requests);
            }
        }
        Some(claim)
    }

    /// Frees this much of what a claim asks for.
    pub(crate) fn free(&mut self, claim: &Arc<str>, amount: &Resources) -> bool {
        let promise = self.by_claim.get_mut(claim);
        promise.map(|promise| promise.freed.add(amount)).is_some()
    }

    /// The promise of a claim, by its name.
    pub(crate) fn of_claim(&self, claim: &Arc<str>) -> Option<&Promise> {
        self.by_claim.get(claim)
    }

    /// All promised pods, by namespace and name.
    pub(crate) fn pods(&self) -> impl Iterator<Item = &Key> {
        self.by_pod.keys()
    }

    /// The claim a pod is promised to.
    pub(crate) fn of_pod(&self, pod: &Key, uid: &str) -> Option<&Arc<str>> {
        let claim = self.by_pod.get(pod)?;
        let same = |promise: &Promise| {
            promise
                .pods
                .iter()
                .any(|promised| promised.key == *pod && *promised.uid == *uid)
        };
        self.by_claim.get(claim).filter(|promise| same(promise)).map(|_| claim)
    }
}
