//! What a caller asks of the solver, and how.

use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use std::sync::Arc;

/// Whether preferences are honoured until they stand in the way (SCH-266), or not at all (SCH-272).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PreferencePolicy {
    /// Honour them, relax one at a time.
    #[default]
    Respect,
    /// Behave as if they were not written.
    Ignore,
}

/// Whether `minValues` may be lowered (section 18).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinValuesPolicy {
    /// Never.
    #[default]
    Strict,
    /// On new claims, to what there is (SCH-282).
    BestEffort,
}

/// What happens when reserved capacity is compatible but taken (section 19).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReservedMode {
    /// The gate is off: reserved offerings are ordinary ones (SCH-289).
    Off,
    /// The pod waits for a later pass (SCH-295): provisioning.
    #[default]
    Strict,
    /// The claim goes without reservations (SCH-296): simulations of other controllers.
    Fallback,
}

/// How nodes are chosen among those the constraints allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packing {
    /// Several strategies within [`Options::effort`]; the plan that schedules most wins, then the cheapest. Never dearer than `Upstream` for
    /// as many pods. Where limits leave pods over, launches offer fewer types, so that less of the limits is set aside for each.
    #[default]
    Cheapest,
    /// The greedy of section 16 alone.
    Upstream,
}

/// How to solve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// See [`PreferencePolicy`].
    pub preference_policy: PreferencePolicy,
    /// See [`MinValuesPolicy`].
    pub min_values_policy: MinValuesPolicy,
    /// See [`ReservedMode`].
    pub reserved: ReservedMode,
    /// See [`Packing`].
    pub packing: Packing,
    /// How many threads may be used; the plan does not depend on it.
    pub threads: usize,
    /// Work units each strategy beyond the first may spend; one unit is about one attempt to place one pod.
    pub effort: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preference_policy: PreferencePolicy::default(),
            min_values_policy: MinValuesPolicy::default(),
            reserved: ReservedMode::default(),
            packing: Packing::default(),
            threads: 1,
            effort: 2_000_000,
        }
    }
}

/// What to solve.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The cluster.
    pub snapshot: &'a Snapshot,
    /// Pods that need a place: pending ones first, faulty ones included, then those of deleting nodes (SCH-031).
    pub pods: &'a [Arc<Pod>],
    /// Indices into the snapshot's nodes that are no targets, besides those marked for deletion (SCH-032, SCH-430).
    pub exclude_nodes: &'a [usize],
    /// Indices into the snapshot's nodes that take no pod moved from a healthy node: too little time has passed since their last pod
    /// event (SCH-251). Pending pods and pods of deleting nodes may still go there. Empty for provisioning.
    pub settling_nodes: &'a [usize],
}

/// One question to a [`Prepared`](crate::Prepared) snapshot: what if these pods needed a place, and these nodes were not there?
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatIf<'a> {
    /// As [`Request::pods`].
    pub pods: &'a [Arc<Pod>],
    /// As [`Request::exclude_nodes`].
    pub exclude_nodes: &'a [usize],
    /// As [`Request::settling_nodes`].
    pub settling_nodes: &'a [usize],
    /// What is free again of the limits of pools, by the pool's name: the capacity of nodes that would go (DIS-312).
    pub freed: &'a [(Arc<str>, Resources)],
}

impl<'a> From<&Request<'a>> for WhatIf<'a> {
    fn from(request: &Request<'a>) -> Self {
        Self {
            pods: request.pods,
            exclude_nodes: request.exclude_nodes,
            settling_nodes: request.settling_nodes,
            freed: &[],
        }
    }
}

impl<'a> Request<'a> {
    /// The pending pods of a snapshot on all its nodes.
    pub fn pending(snapshot: &'a Snapshot) -> Self {
        Self::new(snapshot, &snapshot.pending)
    }

    /// These pods on all nodes.
    pub fn new(snapshot: &'a Snapshot, pods: &'a [Arc<Pod>]) -> Self {
        Self {
            snapshot,
            pods,
            exclude_nodes: &[],
            settling_nodes: &[],
        }
    }
}
