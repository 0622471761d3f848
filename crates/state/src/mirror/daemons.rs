//! DaemonSets and the newest pod of each (SCH-071, SCH-153).

use super::store::Store;
use crate::convert::Converter;
use crate::key::Key;
use jiff::Timestamp;
use kerf_model::pod::PodShape;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::Daemon;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The facts read from a DaemonSet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct DaemonFacts {
    /// The shape its template makes.
    pub(super) template: Arc<PodShape>,
    /// The template's required node affinity, if it has one.
    pub(super) terms: Option<Vec<Vec<Requirement>>>,
    /// Its pods have resource claims, which are refused: they are expected nowhere (SCH-161). The template decides, not the newest pod:
    /// pods on new machines are created from the template.
    pub(super) ignored: bool,
}

/// DaemonSets and their pods.
#[derive(Default, Debug)]
pub(super) struct Daemons {
    pub(super) table: Store<DaemonFacts>,
    /// Pods by the unique id of the DaemonSet that controls them, oldest first.
    pods: BTreeMap<Arc<str>, BTreeSet<(Timestamp, Key)>>,
}

impl Daemons {
    /// Adds a pod; true if it is now the newest of its DaemonSet.
    pub(super) fn joins(&mut self, daemon_set: &Arc<str>, created: Timestamp, pod: &Key) -> bool {
        let pods = self.pods.entry(Arc::clone(daemon_set)).or_default();
        pods.insert((created, pod.clone()));
        pods.last().is_some_and(|(_, newest)| newest == pod)
    }

    /// Removes a pod; true if it was the newest of its DaemonSet.
    pub(super) fn leaves(&mut self, daemon_set: &Arc<str>, created: Timestamp, pod: &Key) -> bool {
        let Some(pods) = self.pods.get_mut(daemon_set) else {
            return false;
        };
        let newest = pods.last().is_some_and(|(_, newest)| newest == pod);
        pods.remove(&(created, pod.clone()));
        if pods.is_empty() {
            self.pods.remove(daemon_set);
        }
        newest
    }

    /// The daemons as snapshots hold them: the newest pod stands for all, with the template's affinity in place of its own, since the
    /// DaemonSet controller pins each pod to its node.
    pub(super) fn shown(
        &self,
        converter: &mut Converter,
        shape_of: impl Fn(&Key) -> Option<Arc<PodShape>>,
    ) -> Vec<Arc<Daemon>> {
        let mut shown = Vec::with_capacity(self.table.len());
        for (key, facts) in self.table.iter().filter(|(_, facts)| !facts.ignored) {
            let uid = self.table.entry(key).map(|entry| &entry.uid);
            let newest = uid.and_then(|uid| self.pods.get(uid)).and_then(BTreeSet::last);
            let sample = newest.and_then(|(_, pod)| shape_of(pod));
            let shape = match (sample, &facts.terms) {
                (Some(sample), Some(terms)) => converter.shape_with_terms(&sample, terms.clone()),
                (Some(sample), None) => sample,
                (None, _) => Arc::clone(&facts.template),
            };
            shown.push(Arc::new(Daemon {
                namespace: Arc::clone(&key.0),
                name: Arc::clone(&key.1),
                shape,
            }));
        }
        shown
    }
}
