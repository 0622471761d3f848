//! The resources that the pods of a node use, updated with each pod event.

use kerf_model::pod::{Owner, Pod};
use kerf_model::resources::Resources;

/// SCH-063, SCH-064: what pods hold, and what DaemonSet pods hold of it.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Usage {
    pub(crate) all: Resources,
    pub(crate) daemons: Resources,
}

impl Usage {
    pub(crate) fn add(&mut self, pod: &Pod) {
        self.all.add(&pod.shape.requests);
        if pod.owner == Owner::DaemonSet {
            self.daemons.add(&pod.shape.requests);
        }
    }

    /// False if what is left may not be what the other pods add up to: a resource at zero may be named by none of them, and a saturated sum
    /// lost what went over.
    pub(crate) fn subtract(&mut self, pod: &Pod) -> bool {
        let requests = &pod.shape.requests;
        let mut exact = subtract(&mut self.all, requests);
        if pod.owner == Owner::DaemonSet {
            exact &= subtract(&mut self.daemons, requests);
        }
        exact
    }
}

fn subtract(sum: &mut Resources, part: &Resources) -> bool {
    let saturated = part
        .iter()
        .any(|(name, _)| matches!(sum.get(name), i64::MIN | i64::MAX));
    sum.subtract(part);
    !saturated && part.iter().all(|(name, _)| sum.get(name) != 0)
}
