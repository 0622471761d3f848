//! A quick upper bound from sums of resources: how many nodes can go so that their pods still fit on the other nodes and one new machine.

use crate::candidate::Candidate;
use kerf_model::instance_type::allocatable;
use kerf_model::intern::{Sym, sym};
use kerf_model::nodepool::Eligibility;
use kerf_model::snapshot::Snapshot;

/// The resources that are summed. A subset is enough: the bound may be too high, but never too low.
const SUMMED: [Sym; 3] = [sym::CPU, sym::MEMORY, sym::PODS];

type Sums = [i128; SUMMED.len()];

/// Sums over the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The free resources of all machines that take pods, plus those of the largest new machine.
    room: Sums,
}

impl Bounds {
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let mut room = Sums::default();
        let targets = snapshot.nodes.iter().filter(|node| !node.marked_for_deletion);
        for node in targets {
            let free = node.available();
            for (sum, name) in room.iter_mut().zip(SUMMED) {
                *sum += i128::from(free.get(name).max(0));
            }
        }
        let eligible = snapshot
            .pools
            .iter()
            .filter(|pool| pool.eligibility == Eligibility::Eligible);
        let types = eligible
            .filter_map(|pool| pool.catalogue.as_ref().ok())
            .flat_map(|catalogue| &catalogue.types);
        let mut largest = Sums::default();
        for kind in types {
            // Overrides may add to what the type has.
            let overrides = kind
                .offerings
                .iter()
                .filter_map(|offering| offering.capacity_override.as_deref());
            let own = allocatable(&kind.capacity, &kind.overhead, |_| false);
            for (most, name) in largest.iter_mut().zip(SUMMED) {
                let overridden = overrides.clone().map(|amounts| amounts.get(name)).max();
                *most = (*most).max(i128::from(own.get(name).max(overridden.unwrap_or_default())));
            }
        }
        for (sum, most) in room.iter_mut().zip(largest) {
            *sum += most;
        }
        Self { room }
    }

    /// The largest number of leading candidates that can possibly go together.
    pub(crate) fn longest_prefix(&self, candidates: &[&Candidate]) -> usize {
        let mut left = self.room;
        let fits = |candidate: &&&Candidate| {
            let free = candidate.node.available();
            for (left, name) in left.iter_mut().zip(SUMMED) {
                let wanted: i128 = candidate
                    .pods
                    .iter()
                    .map(|pod| i128::from(pod.shape.requests.get(name)))
                    .sum();
                *left -= i128::from(free.get(name).max(0)) + wanted;
            }
            left.iter().all(|left| *left >= 0)
        };
        candidates.iter().take_while(fits).count()
    }
}
