//! A pod class and its relaxation levels.

use crate::compile::classes::volume_topology::VolumeTopology;
use crate::compile::requirements::ReqId;
use crate::compile::taints::TaintSet;
use crate::compile::topology::{Domain, GroupId, KeyId, NodeFilterId};
use crate::dense::amounts::Amounts;
use crate::dense::id_set::IdSet;
use crate::dense::ids::Id;
use kerf_model::pod::{PodShape, PodVolume};
use kerf_model::taint::Toleration;
use std::sync::Arc;

/// The id of a class.
pub(crate) type ClassId = Id<PodClass>;

/// A group that constrains the pods of a class at one relaxation level.
#[derive(Clone, Debug)]
pub(crate) struct OwnGroup {
    pub(crate) group: GroupId,
    /// Whether the group selects the pods themselves.
    pub(crate) selects_self: bool,
    /// The domains the pods' hard constraints on the key admit; `None` means all.
    pub(crate) pod_domains: Option<IdSet<Domain>>,
}

/// The id of a relaxation level among the levels of all classes.
pub(crate) type LevelId = Id<CompiledLevel>;

/// One relaxation level of a class, compiled.
#[derive(Clone, Debug)]
pub(crate) struct CompiledLevel {
    /// The hard constraints and the preference in force.
    pub(crate) full: ReqId,
    /// The hard constraints only.
    pub(crate) strict: ReqId,
    /// The taint sets that are tolerated.
    pub(crate) tolerated: Arc<IdSet<TaintSet>>,
    pub(crate) tolerations: Arc<[Toleration]>,
    pub(crate) own_groups: Vec<OwnGroup>,
    /// Whether upstream stops before this level (`RelaxationLevel::kerf_only`).
    pub(crate) kerf_only: bool,
}

/// Pods that no scheduling rule can tell apart.
#[derive(Clone, Debug)]
pub(crate) struct PodClass {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) requests: Amounts,
    /// The relaxation levels, strictest first.
    pub(crate) levels: Arc<[CompiledLevel]>,
    /// Spread, affinity and anti-affinity groups that select the pods and count them.
    pub(crate) counting_groups: Arc<[GroupId]>,
    /// The inverse groups of the pods' own required anti-affinity.
    pub(crate) inverse_groups: Arc<[GroupId]>,
    /// Inverse groups that select the pods: other pods with required anti-affinity to them.
    pub(crate) repelling_groups: Arc<[GroupId]>,
    /// Topology keys whose domain must be fixed when a pod is placed, so that other pods can rely on it.
    pub(crate) fixed_keys: Arc<[KeyId]>,
    /// Node filters that must be decided when a pod is placed, because a required spread constraint that counts the pod uses them.
    pub(crate) filters: Arc<[NodeFilterId]>,
    pub(crate) volumes: Vec<PodVolume>,
    pub(crate) volume_topology: VolumeTopology,
    /// Whether the pods move from a healthy node (SCH-251).
    pub(crate) moved: bool,
    /// The number of its label profile.
    pub(crate) profile: u32,
    /// The id of its constraints besides resources.
    pub(crate) constraints: u32,
}

impl PodClass {
    /// The weakest level of upstream, which reasons refer to, with its index.
    pub(crate) fn reported(&self) -> Option<(usize, &CompiledLevel)> {
        self.levels.iter().enumerate().rfind(|(_, level)| !level.kerf_only)
    }
}
