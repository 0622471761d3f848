//! A cluster built from given objects, for tools that work offline.
//!
//! Fills in what an API server, admission and the controllers would have filled in: priorities from priority classes, requests
//! from limits, unique ids. Unbound pods wait for capacity, and pools without conditions are ready.

use crate::convert::{Conventions, default_from_limits};
use crate::lean::{
    LeanCsiNode, LeanDaemonSet, LeanNamespace, LeanNode, LeanPdb, LeanPod, LeanPriorityClass, LeanPv, LeanPvc,
    LeanStorageClass,
};
use crate::mirror::{Mirror, MirrorOptions};
use crate::object::Mirrored;
use kerf_api::{NodeClaim, NodePool};
use kerf_model::instance_type::{Catalogue, CatalogueFault};
use kerf_model::intern::Interner;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The objects of a cluster. Of several with one kind, namespace and name the last counts.
#[derive(Clone, Debug, Default)]
#[expect(missing_docs, reason = "the names are the kinds' own")]
pub struct ClusterObjects {
    pub pods: Vec<LeanPod>,
    pub nodes: Vec<LeanNode>,
    pub claims: Vec<NodeClaim>,
    pub pools: Vec<NodePool>,
    pub daemon_sets: Vec<LeanDaemonSet>,
    pub volume_claims: Vec<LeanPvc>,
    pub volumes: Vec<LeanPv>,
    pub storage_classes: Vec<LeanStorageClass>,
    pub csi_nodes: Vec<LeanCsiNode>,
    pub pdbs: Vec<LeanPdb>,
    pub namespaces: Vec<LeanNamespace>,
    pub priority_classes: Vec<LeanPriorityClass>,
    /// Instance types by pool name.
    pub catalogues: BTreeMap<String, Result<Arc<Catalogue>, CatalogueFault>>,
}

impl ClusterObjects {
    /// A mirror that holds these objects and has everything listed.
    pub fn into_mirror(mut self, interner: Arc<Interner>, conventions: Conventions) -> Mirror {
        let options = MirrorOptions {
            conventions,
            offline: true,
        };
        let mut mirror = Mirror::new(interner, &options);
        let priorities = std::mem::take(&mut self.priority_classes);
        for pod in &mut self.pods {
            complete(pod, &priorities);
        }
        mirror.reset(with_uids(self.namespaces));
        mirror.reset(with_uids(self.storage_classes));
        mirror.reset(with_uids(self.volumes));
        mirror.reset(with_uids(self.volume_claims));
        mirror.reset(with_uids(self.pools));
        mirror.reset(with_uids(self.daemon_sets));
        mirror.reset(with_uids(self.claims));
        mirror.reset(with_uids(self.csi_nodes));
        mirror.reset(with_uids(self.nodes));
        mirror.reset(with_uids(self.pdbs));
        mirror.reset(with_uids(self.pods));
        for (pool, catalogue) in self.catalogues {
            mirror.set_catalogue(&pool, catalogue);
        }
        mirror
    }
}

/// Fills in what admission would have.
fn complete(pod: &mut LeanPod, priorities: &[LeanPriorityClass]) {
    default_from_limits(&mut pod.spec);
    if pod.spec.priority.is_none() {
        let class = match pod.spec.priority_class_name.as_deref() {
            Some(name) => priorities
                .iter()
                .find(|class| class.metadata.name.as_deref() == Some(name)),
            None => priorities.iter().find(|class| class.global_default),
        };
        pod.spec.priority = class.map(|class| class.value);
    }
}

/// Gives a unique id to the objects that have none, made of namespace and name. An object without a name keeps none, and the mirror ignores it.
fn with_uids<K: Mirrored>(mut objects: Vec<K>) -> Vec<K> {
    for object in &mut objects {
        let meta = object.meta_mut();
        if meta.uid.as_deref().is_none_or(str::is_empty) {
            let namespace = meta.namespace.as_deref().unwrap_or("default");
            meta.uid = meta.name.as_deref().map(|name| format!("{namespace}/{name}"));
        }
    }
    objects
}
