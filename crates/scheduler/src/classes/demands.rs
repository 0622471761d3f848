//! What shapes demand besides resources, compiled.

use crate::classes::filters::Filters;
use crate::classes::{Interned, Owned, Variant};
use crate::options::Options;
use crate::relax::{Reading, readings};
use crate::requirements::ReqSet;
use crate::topology::{GroupId, GroupKey, GroupKind, Selection};
use kerf_model::intern::Interner;
use kerf_model::pod::{NamespaceScope, Pod, PodShape};
use kerf_model::snapshot::Snapshot;
use kerf_model::taint::{Toleration, first_untolerated};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// What a shape demands besides resources, in a namespace: classes that differ in their requests alone share what is compiled of it.
pub(super) struct Demands<'a>(pub(super) &'a PodShape, pub(super) &'a str);

impl Demands<'_> {
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

impl PartialEq for Demands<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl Eq for Demands<'_> {}

impl Hash for Demands<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.parts().hash(state);
    }
}

/// What demands are compiled to.
pub(super) struct Compiled {
    pub(super) number: u32,
    pub(super) variants: Arc<[Variant]>,
    pub(super) repels: Arc<[GroupId]>,
}

impl Compiled {
    pub(super) fn new(
        snapshot: &Snapshot,
        options: &Options,
        pod: &Arc<Pod>,
        number: u32,
        interned: &mut Interned<'_>,
    ) -> Self {
        let shape = &pod.shape;
        let interner = &*snapshot.interner;
        let filters = Filters::new(shape, interned, interner);
        let readings = readings(shape, options.preference_policy, interned.soft_taints);
        let variants = readings
            .iter()
            .map(|reading| compile_variant(pod, reading, &filters, interned, interner))
            .collect();
        let repels = shape
            .anti_affinity
            .iter()
            .map(|term| {
                interned.groups.intern(
                    GroupKey::of_term(GroupKind::Inverse, term, interned.keys.intern(term.key)),
                    true,
                )
            })
            .collect();
        Self {
            number,
            variants,
            repels,
        }
    }
}

fn compile_variant(
    pod: &Pod,
    reading: &Reading<'_>,
    filters: &Filters,
    interned: &mut Interned<'_>,
    interner: &Interner,
) -> Variant {
    let shape = &pod.shape;
    let hard = shape
        .node_selector
        .iter()
        .chain(reading.term.into_iter().flatten())
        .cloned();
    let strict = ReqSet::new(hard.clone(), interner);
    let full = match reading.preferred {
        Some(preferred) => ReqSet::new(hard.chain(preferred.iter().cloned()), interner),
        None => strict.clone(),
    };
    let mut owned = Vec::new();
    let mut own = |group: GroupId| {
        owned.push(Owned {
            group,
            selects_self: false,
            pod_domains: None,
        });
    };
    for constraint in &reading.spread {
        let key = interned.keys.intern(constraint.key);
        let filter = filters.of(constraint, key, interned.groups);
        own(interned.groups.intern(
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
    // kube-scheduler asks for pods that all required terms select; preferred terms stand for themselves.
    for (at, term) in reading.affinity.iter().enumerate() {
        let key = interned.keys.intern(term.key);
        let required = at < shape.affinity.len();
        let identity = if required {
            GroupKey::of_terms(GroupKind::Affinity, &shape.affinity, key)
        } else {
            GroupKey::of_term(GroupKind::Affinity, term, key)
        };
        own(interned.groups.intern(identity, required));
    }
    for (at, term) in reading.anti_affinity.iter().enumerate() {
        let key = interned.keys.intern(term.key);
        let identity = GroupKey::of_term(GroupKind::AntiAffinity, term, key);
        own(interned.groups.intern(identity, at < shape.anti_affinity.len()));
    }
    let mut tolerations = shape.tolerations.clone();
    if reading.tolerates_soft_taints {
        tolerations.push(Toleration::prefer_no_schedule());
    }
    let tolerated = interned.taint_sets.iter().enumerate();
    let tolerated = tolerated
        .filter(|(_, taints)| first_untolerated(taints, &tolerations).is_none())
        .map(|(at, _)| at);
    Variant {
        full: interned.req_sets.intern(full),
        strict: interned.req_sets.intern(strict),
        tolerated: Arc::new(tolerated.collect()),
        tolerations: tolerations.into(),
        owned,
        beyond: reading.beyond,
    }
}
