//! What a caller asks of the solver, and how it is to solve it.

use kerf_model::pod::Pod;
use kerf_model::resources::Resources;
use kerf_model::snapshot::Snapshot;
use kerf_units::launch_price_range::LaunchPriceRange;
use kerf_units::nominated_pods::NominatedPodsMax;
use kerf_units::policy::{MinValuesPolicy, NodeOverheadCost, NodeScoring, Packing, PreferencePolicy};
use std::sync::Arc;

/// What happens when a compatible reservation exists but is used up (section 19 of `docs/behaviour/scheduling.md`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReservedMode {
    /// The feature gate is off: reserved offerings are treated like others (SCH-289).
    Off,
    /// The pod waits for a later pass (SCH-295). Used for provisioning.
    #[default]
    Strict,
    /// The claim is made without reservations (SCH-296). Used for simulations by other controllers.
    Fallback,
}

/// The settings of a solve.
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
    /// What a node costs besides its price. Counts for [`Packing::Balanced`] only.
    pub node_overhead: NodeOverheadCost,
    /// Whether plans are chosen by what they cost after kube-scheduler has bound their pods. Does not concern [`Packing::Upstream`].
    pub forecast_binding: bool,
    /// Plans for at most so many pods nominate them to the nodes they are planned onto. Forecasts of binding play these nominations.
    pub nominated_pods_max: NominatedPodsMax,
    /// Whether more pods like these will come while the machines of the plan start: forecasts of binding then count with them.
    pub more_pods_coming: bool,
    /// Which instance types a launch lists besides the cheapest.
    pub launch_price_range: LaunchPriceRange,
    /// How kube-scheduler scores nodes.
    pub node_scoring: NodeScoring,
    /// The largest number of threads. The plan does not depend on it.
    pub threads: usize,
    /// Work units each strategy after the first may spend. One unit is about one attempt to place one pod.
    pub effort: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            preference_policy: PreferencePolicy::default(),
            min_values_policy: MinValuesPolicy::default(),
            reserved: ReservedMode::default(),
            packing: Packing::default(),
            node_overhead: NodeOverheadCost::default(),
            forecast_binding: true,
            nominated_pods_max: NominatedPodsMax::default(),
            more_pods_coming: false,
            launch_price_range: LaunchPriceRange::default(),
            node_scoring: NodeScoring::default(),
            threads: 1,
            effort: 2_000_000,
        }
    }
}

/// A snapshot and the pods to place.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The state of the cluster.
    pub snapshot: &'a Snapshot,
    /// Pods that need a node: pending ones first, invalid ones included, then those of deleting nodes (SCH-031).
    pub pods: &'a [Arc<Pod>],
    /// Indices into the snapshot's nodes. These take no pods, like those marked for deletion (SCH-032, SCH-430).
    pub exclude_nodes: &'a [usize],
    /// Indices into the snapshot's nodes. These take no pod that moves from a healthy node, because too little time has passed since their
    /// last pod event (SCH-251). Pending pods and pods of deleting nodes may still be placed there. Empty for provisioning.
    pub settling_nodes: &'a [usize],
}

/// One question to a [`Prepared`](crate::Prepared) snapshot: where would these pods go if these nodes did not exist?
#[derive(Clone, Copy, Debug, Default)]
pub struct WhatIf<'a> {
    /// See [`Request::pods`].
    pub pods: &'a [Arc<Pod>],
    /// See [`Request::exclude_nodes`].
    pub exclude_nodes: &'a [usize],
    /// See [`Request::settling_nodes`].
    pub settling_nodes: &'a [usize],
    /// Resources to add back to the limits of pools, by the pool's name: the capacity of nodes that would be removed (DIS-312).
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
    /// A request for the pending pods of a snapshot, with all nodes.
    pub fn pending(snapshot: &'a Snapshot) -> Self {
        Self::new(snapshot, &snapshot.pending)
    }

    /// A request for these pods, with all nodes.
    pub fn new(snapshot: &'a Snapshot, pods: &'a [Arc<Pod>]) -> Self {
        Self {
            snapshot,
            pods,
            exclude_nodes: &[],
            settling_nodes: &[],
        }
    }
}
