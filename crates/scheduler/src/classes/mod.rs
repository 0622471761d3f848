//! Pod classes: pods that no rule can tell apart, with the chain of readings relaxation goes through.

mod demands;
mod filters;
mod matching;
mod numbering;
mod profiles;
mod reach;

pub(crate) use profiles::selector_keys;
pub(crate) use reach::Reach;

use crate::amounts::{Amounts, ResourceIndex};
use crate::bits::Bits;
use crate::classes::demands::{Compiled, Demands};
use crate::classes::numbering::Numbering;
use crate::classes::profiles::Profiles;
use crate::options::{Options, WhatIf};
use crate::prepared::Prepared;
use crate::requirements::{ReqId, ReqSets};
use crate::topology::{FilterId, GroupId, Groups, Keys};
use kerf_model::pod::{Phase, Pod, PodShape, PodVolume};
use kerf_model::taint::{Taint, Toleration};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The number of a class.
pub(crate) type ClassId = u32;

/// A group a reading is bound by.
#[derive(Clone, Debug)]
pub(crate) struct Owned {
    pub(crate) group: GroupId,
    /// Whether the group selects the pod itself.
    pub(crate) selects_self: bool,
    /// The domains the pod's hard constraints on the key admit; `None` for all.
    pub(crate) pod_domains: Option<Bits>,
}

/// One reading of a class, compiled.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Hard constraints plus the preference in force.
    pub(crate) full: ReqId,
    /// Hard constraints only.
    pub(crate) strict: ReqId,
    /// By number of taint set: whether it is tolerated.
    pub(crate) tolerated: Arc<Bits>,
    pub(crate) tolerations: Arc<[Toleration]>,
    pub(crate) owned: Vec<Owned>,
    /// See [`Reading::beyond`].
    pub(crate) beyond: bool,
}

/// A class of pods.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) shape: Arc<PodShape>,
    pub(crate) requests: Amounts,
    /// The readings, strictest first.
    pub(crate) variants: Arc<[Variant]>,
    /// Spread, affinity and anti-affinity groups that select the pods.
    pub(crate) counted_in: Arc<[GroupId]>,
    /// Inverse groups the pods own.
    pub(crate) repels: Arc<[GroupId]>,
    /// Inverse groups that select the pods.
    pub(crate) repelled_by: Arc<[GroupId]>,
    /// Topology keys that must be settled when a pod is placed, so that others can rely on it.
    pub(crate) settles: Arc<[u32]>,
    /// Node filters that must be decided when a pod is placed: required spread constraints that select it count it by them.
    pub(crate) filters: Arc<[FilterId]>,
    pub(crate) volumes: Vec<PodVolume>,
    pub(crate) reach: Reach,
    /// Whether the pods move from a healthy node (SCH-251).
    pub(crate) moved: bool,
    profile: u32,
    /// Number of what its shape demands besides resources.
    demands: u32,
}

impl Class {
    /// The weakest reading upstream knows, which is the one reasons speak of, and its level.
    pub(crate) fn reported(&self) -> Option<(usize, &Variant)> {
        self.variants.iter().enumerate().rfind(|(_, variant)| !variant.beyond)
    }
}

/// The classes of a pass and what was interned to describe them.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    pub(crate) list: Vec<Class>,
    /// By pod, in the order of the request; `None` for ignored pods.
    pub(crate) of_pod: Vec<Option<ClassId>>,
    /// One pod of each label profile.
    pub(crate) profiles: Vec<Arc<Pod>>,
}

/// What class compilation interns into and looks up.
pub(crate) struct Interned<'a> {
    pub(crate) resources: &'a ResourceIndex,
    pub(crate) req_sets: &'a mut ReqSets,
    pub(crate) groups: &'a mut Groups,
    pub(crate) keys: &'a mut Keys,
    pub(crate) taint_sets: &'a [Vec<Taint>],
    pub(crate) soft_taints: bool,
}

impl Classes {
    /// Sorts pods into classes.
    pub(crate) fn compile(
        prepared: &Prepared,
        request: &WhatIf<'_>,
        queue: &[u32],
        options: &Options,
        interned: &mut Interned<'_>,
    ) -> Self {
        let mut classes = Self {
            of_pod: vec![None; request.pods.len()],
            ..Self::default()
        };
        let mut shapes = Numbering::new();
        let numbers: Vec<u32> = request.pods.iter().map(|pod| shapes.number(&pod.shape)).collect();
        let mut keys = selector_keys(shapes.distinct());
        keys.extend(prepared.bound.keys.iter().map(|key| &**key));
        let mut keys: Vec<&str> = keys.into_iter().collect();
        keys.sort_unstable();
        let mut profiles = Profiles::new(keys);
        let mut compiled: FxHashMap<Demands<'_>, Compiled> = FxHashMap::default();
        let mut ids: FxHashMap<(u32, u32, bool, &[PodVolume]), ClassId> = FxHashMap::default();
        let deleting = |name: &str| {
            let node = prepared.node_named(name);
            node.is_some_and(|at| prepared.snapshot.nodes[at].marked_for_deletion)
        };
        let none: Arc<[u32]> = Arc::new([]);
        // In the order of the queue, so that no number depends on that of the request.
        for at in queue {
            let at = *at as usize;
            let (pod, shape) = (&request.pods[at], numbers[at]);
            let profile = profiles.number(pod, &mut classes.profiles);
            let moved = !request.settling_nodes.is_empty()
                && pod.phase != Phase::Pending
                && !pod.node_name.as_deref().is_some_and(deleting);
            let key = (shape, profile, moved, pod.volumes.as_slice());
            let next = classes.list.len() as ClassId;
            let id = *ids.entry(key).or_insert(next);
            if id == next {
                let number = compiled.len() as u32;
                let demands = Demands(&pod.shape, &pod.namespace);
                let known = compiled.entry(demands);
                let shared = known.or_insert_with(|| Compiled::new(&prepared.snapshot, options, pod, number, interned));
                classes.list.push(Class {
                    shape: Arc::clone(&pod.shape),
                    requests: interned.resources.dense(&pod.shape.requests),
                    variants: Arc::clone(&shared.variants),
                    counted_in: Arc::clone(&none),
                    repels: Arc::clone(&shared.repels),
                    repelled_by: Arc::clone(&none),
                    settles: Arc::clone(&none),
                    filters: Arc::clone(&none),
                    volumes: pod.volumes.clone(),
                    reach: Reach::of(&pod.volumes, prepared.interner(), interned.req_sets),
                    moved,
                    profile,
                    demands: shared.number,
                });
            }
            classes.of_pod[at] = Some(id);
        }
        classes
    }
}
