//! Groups the pods of a question into classes.

use crate::compile::classes::class::{ClassId, PodClass};
use crate::compile::classes::constraints::{CompiledConstraints, Constraints};
use crate::compile::classes::context::CompileContext;
use crate::compile::classes::label_profiles::LabelProfiles;
use crate::compile::classes::numbering::Numbering;
use crate::compile::classes::volume_topology::VolumeTopology;
use crate::compile::prepared::Prepared;
use crate::compile::queue::PodId;
use crate::compile::selector_keys::selector_keys;
use crate::compile::topology::{GroupId, KeyId, NodeFilterId};
use crate::dense::ids::IdVec;
use crate::options::{Options, WhatIf};
use kerf_model::pod::{Phase, Pod, PodVolume};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The classes of a question.
#[derive(Debug, Default)]
pub(crate) struct PodClasses {
    pub(crate) list: IdVec<PodClass, PodClass>,
    /// By pod, in the order of the request; `None` for invalid pods.
    pub(crate) of_pod: IdVec<Pod, Option<ClassId>>,
    /// One pod of each label profile.
    pub(crate) profiles: Vec<Arc<Pod>>,
}

/// The class of a pod before classes have ids.
struct PodKind {
    number: usize,
    profile: u32,
    moved: bool,
}

impl PodClasses {
    /// Groups the pods of a question into classes.
    pub(crate) fn compile(
        prepared: &Prepared,
        request: &WhatIf<'_>,
        queue: &[PodId],
        options: &Options,
        context: &mut CompileContext<'_>,
    ) -> Self {
        let mut classes = Self {
            of_pod: IdVec::filled(None, request.pods.len()),
            ..Self::default()
        };
        let mut shapes = Numbering::new();
        let numbers: Vec<u32> = request.pods.iter().map(|pod| shapes.number(&pod.shape)).collect();
        let mut keys = selector_keys(shapes.distinct());
        keys.extend(prepared.running_pods.keys.iter().map(|key| &**key));
        let mut keys: Vec<&str> = keys.into_iter().collect();
        keys.sort_unstable();
        let mut profiles = LabelProfiles::new(keys);
        let mut compiled: FxHashMap<Constraints<'_>, CompiledConstraints> = FxHashMap::default();
        let deleting = |name: &str| {
            let node = prepared.node_named(name);
            node.is_some_and(|at| prepared.snapshot.nodes[at].marked_for_deletion)
        };
        let no_groups: Arc<[GroupId]> = Arc::new([]);
        let no_keys: Arc<[KeyId]> = Arc::new([]);
        let no_filters: Arc<[NodeFilterId]> = Arc::new([]);
        // In the order of the request, in which the pods are in memory.
        let mut kinds: FxHashMap<(u32, u32, bool, &[PodVolume]), usize> = FxHashMap::default();
        let kinds_of_pods: Vec<PodKind> = request
            .pods
            .iter()
            .zip(numbers)
            .map(|(pod, shape)| {
                let profile = profiles.number(pod);
                let moved = !request.settling_nodes.is_empty()
                    && pod.phase != Phase::Pending
                    && !pod.node_name.as_deref().is_some_and(deleting);
                let next = kinds.len();
                let number = *kinds
                    .entry((shape, profile, moved, pod.volumes.as_slice()))
                    .or_insert(next);
                PodKind { number, profile, moved }
            })
            .collect();
        let mut ids: Vec<Option<ClassId>> = vec![None; kinds.len()];
        let mut profile_ids: FxHashMap<u32, u32> = FxHashMap::default();
        // In the order of the queue, so that ids do not depend on the order of the request.
        for at in queue {
            let PodKind { number, profile, moved } = kinds_of_pods[at.index()];
            let id = *ids[number].get_or_insert_with(|| {
                let pod = &request.pods[at.index()];
                let profile = *profile_ids.entry(profile).or_insert_with(|| {
                    classes.profiles.push(Arc::clone(pod));
                    classes.profiles.len() as u32 - 1
                });
                let number = compiled.len() as u32;
                let constraints = Constraints(&pod.shape, &pod.namespace);
                let known = compiled.entry(constraints);
                let compiled_constraints = known
                    .or_insert_with(|| CompiledConstraints::new(&prepared.snapshot, options, pod, number, context));
                classes.list.push(PodClass {
                    shape: Arc::clone(&pod.shape),
                    requests: context.resources.dense(&pod.shape.requests),
                    levels: Arc::clone(&compiled_constraints.levels),
                    counting_groups: Arc::clone(&no_groups),
                    inverse_groups: Arc::clone(&compiled_constraints.inverse_groups),
                    repelling_groups: Arc::clone(&no_groups),
                    fixed_keys: Arc::clone(&no_keys),
                    filters: Arc::clone(&no_filters),
                    volumes: pod.volumes.clone(),
                    volume_topology: VolumeTopology::of(&pod.volumes, prepared.interner(), context.req_sets),
                    moved,
                    profile,
                    constraints: compiled_constraints.number,
                })
            });
            classes.of_pod[*at] = Some(id);
        }
        classes
    }
}
