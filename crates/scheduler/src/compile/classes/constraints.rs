//! The constraints of a pod shape besides resources, compiled once for all classes that share them.

use crate::compile::classes::class::{CompiledLevel, OwnGroup};
use crate::compile::classes::context::CompileContext;
use crate::compile::classes::spread_filters::SpreadNodeFilters;
use crate::compile::relaxation::{RelaxationLevel, relaxation_levels};
use crate::compile::requirements::ReqSet;
use crate::compile::topology::{GroupId, GroupKey, GroupKind, Selection};
use crate::options::Options;
use kerf_model::intern::Interner;
use kerf_model::pod::{NamespaceScope, Pod, PodShape};
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Toleration, first_untolerated};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The constraints of a shape besides resources, in a namespace. Compared by content.
pub(super) struct Constraints<'a>(pub(super) &'a PodShape, pub(super) &'a str);

impl Constraints<'_> {
    /// Everything that equality compares.
    fn parts(&self) -> impl PartialEq + Hash + '_ {
        let Self(shape, namespace) = self;
        let node = (
            &shape.node_selector,
            &shape.required_terms,
            &shape.preferred_terms,
            &shape.tolerations,
        );
        let pods = (
            &shape.spread,
            &shape.affinity,
            &shape.anti_affinity,
            &shape.preferred_affinity,
            &shape.preferred_anti_affinity,
        );
        (node, pods, namespace)
    }
}

impl PartialEq for Constraints<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Constraints<'_> {}

impl Hash for Constraints<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// The compiled constraints.
pub(super) struct CompiledConstraints {
    pub(super) number: u32,
    pub(super) levels: Arc<[CompiledLevel]>,
    pub(super) inverse_groups: Arc<[GroupId]>,
}

impl CompiledConstraints {
    pub(super) fn new(
        snapshot: &Snapshot,
        options: &Options,
        pod: &Arc<Pod>,
        number: u32,
        context: &mut CompileContext<'_>,
    ) -> Self {
        let shape = &pod.shape;
        let interner = &*snapshot.interner;
        let filters = SpreadNodeFilters::new(shape, context, interner);
        let relaxation_levels = relaxation_levels(shape, options.preference_policy, context.soft_taints);
        let levels = relaxation_levels
            .iter()
            .map(|relaxation| compile_level(pod, relaxation, &filters, context, interner))
            .collect();
        let inverse_groups = shape
            .anti_affinity
            .iter()
            .map(|term| {
                context.groups.intern(
                    GroupKey::of_term(GroupKind::Inverse, term, context.keys.intern(term.key)),
                    true,
                )
            })
            .collect();
        Self {
            number,
            levels,
            inverse_groups,
        }
    }
}

/// Compiles one relaxation level.
fn compile_level(
    pod: &Pod,
    relaxation: &RelaxationLevel<'_>,
    filters: &SpreadNodeFilters,
    context: &mut CompileContext<'_>,
    interner: &Interner,
) -> CompiledLevel {
    let shape = &pod.shape;
    let hard = shape
        .node_selector
        .iter()
        .chain(relaxation.term.into_iter().flatten())
        .cloned();
    let strict = ReqSet::new(hard.clone(), interner);
    let full = match relaxation.preferred {
        Some(preferred) => ReqSet::new(hard.chain(preferred.iter().cloned()), interner),
        None => strict.clone(),
    };
    let mut own_groups = Vec::new();
    let mut own = |group: GroupId| {
        own_groups.push(OwnGroup {
            group,
            selects_self: false,
            pod_domains: None,
        });
    };
    for constraint in &relaxation.spread {
        let key = context.keys.intern(constraint.key);
        let filter = filters.of(constraint, key, context.groups);
        own(context.groups.intern(
            GroupKey {
                kind: GroupKind::Spread,
                key,
                selected: vec![Selection {
                    selector: constraint.selector.clone(),
                    scope: NamespaceScope {
                        names: vec![Arc::clone(&pod.namespace)],
                        selector: None,
                    },
                }],
                max_skew: constraint.max_skew,
                min_domains: constraint.min_domains,
                filter,
            },
            constraint.required,
        ));
    }
    // kube-scheduler looks for pods that all required terms select. Each preferred term counts by itself.
    for (at, term) in relaxation.affinity.iter().enumerate() {
        let key = context.keys.intern(term.key);
        let required = at < shape.affinity.len();
        let identity = if required {
            GroupKey::of_terms(GroupKind::Affinity, &shape.affinity, key)
        } else {
            GroupKey::of_term(GroupKind::Affinity, term, key)
        };
        own(context.groups.intern(identity, required));
    }
    for (at, term) in relaxation.anti_affinity.iter().enumerate() {
        let key = context.keys.intern(term.key);
        let identity = GroupKey::of_term(GroupKind::AntiAffinity, term, key);
        own(context.groups.intern(identity, at < shape.anti_affinity.len()));
    }
    let mut tolerations = shape.tolerations.clone();
    if relaxation.tolerates_soft_taints {
        tolerations.push(Toleration::prefer_no_schedule());
    }
    let tolerated = context.taint_sets.entries();
    let tolerated = tolerated
        .filter(|(_, taints)| first_untolerated(taints, &tolerations).is_none())
        .map(|(id, _)| id);
    CompiledLevel {
        full: context.req_sets.intern(full),
        strict: context.req_sets.intern(strict),
        tolerated: Arc::new(tolerated.collect()),
        tolerations: tolerations.into(),
        own_groups,
        kerf_only: relaxation.kerf_only,
    }
}
