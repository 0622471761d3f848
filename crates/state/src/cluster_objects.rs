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
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
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
        mirror.reset(self.namespaces);
        mirror.reset(self.storage_classes);
        mirror.reset(self.volumes);
        mirror.reset(self.volume_claims);
        mirror.reset(self.pools);
        mirror.reset(self.daemon_sets);
        mirror.reset(self.claims);
        mirror.reset(self.csi_nodes);
        mirror.reset(self.nodes);
        mirror.reset(self.pdbs);
        mirror.reset(self.pods);
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
    if pod.metadata.uid.is_none() {
        pod.metadata.uid = Some(made_up_uid(&pod.metadata));
    }
}

fn made_up_uid(meta: &ObjectMeta) -> String {
    let text = |field: &Option<String>, otherwise: &str| field.clone().unwrap_or_else(|| otherwise.to_owned());
    format!("{}/{}", text(&meta.namespace, "default"), text(&meta.name, ""))
}
