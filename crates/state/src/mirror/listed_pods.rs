//! Pods of a list that is not complete yet. They are kept as facts: the objects of a large cluster together take several times as much memory.

use super::{Mirror, PodEntry};
use crate::key::Key;
use crate::lean::LeanPod;
use crate::object::{Identity, Kind, Mirrored, ResetReport};

/// A pod of a list.
#[derive(Debug)]
pub struct ListedPod {
    id: Identity,
    /// `None` if the pod was known in this version when it was listed. What is known of it at the end of the list is as new.
    entry: Option<PodEntry>,
}

impl ListedPod {
    /// Its namespace and name.
    pub const fn key(&self) -> &Key {
        &self.id.key
    }
}

impl Mirror {
    /// Takes a pod of a list, before the list is complete. `None` without a name or unique id.
    pub fn listed_pod(&mut self, pod: &LeanPod) -> Option<ListedPod> {
        let id = Identity::of(LeanPod::KIND, &pod.metadata)?;
        let known = self.pods.identity(&id.key);
        let is_known = known.is_some_and(|known| known.uid == id.uid && known.version == id.version && id.version != 0);
        let entry = if is_known { None } else { Some(self.pod_entry(pod)?) };
        Some(ListedPod { id, entry })
    }

    /// Applies a complete list of pods, as [`Mirror::reset_but`] does.
    pub fn reset_pods(&mut self, pods: Vec<ListedPod>, unreadable: &dyn Fn(&str, &str) -> bool) -> ResetReport {
        let count = pods.len();
        let pods = pods.into_iter().map(|ListedPod { id, entry }| (id, entry));
        let apply = |mirror: &mut Self, id: &Identity, entry: Option<PodEntry>| {
            if let Some(entry) = entry {
                mirror.put_pod(id.version, entry);
            }
        };
        self.reset_listed(Kind::Pod, count, pods, apply, unreadable)
    }
}
