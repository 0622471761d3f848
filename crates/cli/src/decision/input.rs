//! From manifests to a cluster: objects are judged as an API server would, decoded, and their references looked up.

use super::nominations::Nominations;
use crate::manifests::{InputError, Object, expand_workloads};
use kerf_api::{NodeClaim, NodeOverlay, NodePool};
use kerf_apiserver::Admission;
use kerf_state::World;
use kerf_state::lean::LeanPod;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The objects of a cluster by kind.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) world: World,
    pub(crate) overlays: Vec<NodeOverlay>,
    /// The pods claims on their way were made for, where that is known.
    pub(crate) nominations: Nominations,
}

/// Reads the objects; what is wrong with one is reported and the object left out.
pub(super) fn read(mut objects: Vec<Object>) -> (Cluster, Vec<InputError>) {
    let mut errors = Vec::new();
    admit(&mut objects, &mut errors);
    errors.extend(expand_workloads(&mut objects));
    errors.extend(missing_references(&objects));
    let mut cluster = Cluster::default();
    for object in objects {
        if let Err(error) = cluster.add(object) {
            errors.push(*error);
        }
    }
    (cluster, errors)
}

/// The same for objects an API server has judged already, workloads and all they own among them.
pub(super) fn read_admitted(objects: Vec<Object>) -> (Cluster, Vec<InputError>) {
    let mut cluster = Cluster::default();
    let errors = objects.into_iter().filter_map(|object| cluster.add(object).err());
    let errors = errors.map(|error| *error).collect();
    (cluster, errors)
}

fn admit(objects: &mut Vec<Object>, errors: &mut Vec<InputError>) {
    let crds = kerf_api::crds(kerf_api::Provider::Core);
    let kwok = kerf_api::crds(kerf_api::Provider::Kwok);
    let class = kwok.iter().filter(|crd| crd.name.starts_with("kwoknodeclasses"));
    let mut admission = Admission::new(crds.iter().chain(class).map(|crd| &crd.value));
    objects.retain_mut(|object| match admission.admit(with_uid(object)) {
        Ok(()) => true,
        Err(problems) => {
            errors.extend(problems.into_iter().map(|problem| {
                let error = object.error(problem.field.as_deref().unwrap_or_default(), problem.message);
                error.remedy("correct it; an API server would refuse the object too")
            }));
            false
        }
    });
}

/// A server would have given the object its unique id; labels of Jobs, for one, are made of it.
fn with_uid(object: &mut Object) -> &mut Value {
    let title = object.title();
    if let Some(meta) = object.value.get_mut("metadata").and_then(Value::as_object_mut) {
        meta.entry("uid").or_insert_with(|| title.into());
    }
    &mut object.value
}

impl Cluster {
    /// A pod, as its object says.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<&LeanPod> {
        self.world.pods.iter().find(|pod| {
            let meta = &pod.metadata;
            meta.name.as_deref() == Some(name) && meta.namespace.as_deref().unwrap_or("default") == namespace
        })
    }

    /// The names of instance types that nodes and claims are of, sorted.
    pub(super) fn instance_types(&self) -> BTreeSet<&str> {
        let nodes = self.world.nodes.iter().map(|node| &node.metadata);
        let claims = self.world.claims.iter().map(|claim| &claim.metadata);
        let labels = nodes.chain(claims).filter_map(|meta| meta.labels.as_ref());
        labels
            .filter_map(|labels| labels.get("node.kubernetes.io/instance-type").map(String::as_str))
            .collect()
    }

    /// The names of claims that have no machine yet.
    pub(super) fn launching(&self) -> Vec<&str> {
        let launched = |claim: &&NodeClaim| {
            let status = claim.status.as_ref();
            status
                .and_then(|status| status.provider_id.as_deref())
                .is_some_and(|id| !id.is_empty())
        };
        let launching = self.world.claims.iter().filter(|claim| !launched(claim));
        launching.filter_map(|claim| claim.metadata.name.as_deref()).collect()
    }

    fn add(&mut self, object: Object) -> Result<(), Box<InputError>> {
        let world = &mut self.world;
        match object.kind.as_str() {
            "Pod" => world.pods.push(decode(object)?),
            "Node" => world.nodes.push(decode(object)?),
            "Namespace" => world.namespaces.push(decode(object)?),
            "PersistentVolumeClaim" => world.volume_claims.push(decode(object)?),
            "PersistentVolume" => world.volumes.push(decode(object)?),
            "DaemonSet" => world.daemon_sets.push(decode(object)?),
            "StorageClass" => world.storage_classes.push(decode(object)?),
            "CSINode" => world.csi_nodes.push(decode(object)?),
            "PodDisruptionBudget" => world.pdbs.push(decode(object)?),
            "PriorityClass" => world.priority_classes.push(decode(object)?),
            "NodePool" => world.pools.push(decode::<NodePool>(object)?),
            "NodeClaim" => world.claims.push(decode(object)?),
            "NodeOverlay" => self.overlays.push(decode(object)?),
            // Node classes matter by being there.
            _ => {}
        }
        Ok(())
    }
}

fn decode<K: DeserializeOwned>(mut object: Object) -> Result<K, Box<InputError>> {
    serde_json::from_value(object.value.take()).map_err(|problem| {
        Box::new(
            object
                .error("", format!("cannot be read: {problem}"))
                .remedy("correct the field named"),
        )
    })
}

/// References that lead nowhere: a pool's node class, an unbound claim's storage class, a pod's claim.
fn missing_references(objects: &[Object]) -> Vec<InputError> {
    let mut names: BTreeMap<&str, BTreeSet<(&str, &str)>> = BTreeMap::new();
    for object in objects {
        let key = (object.namespace.as_deref().unwrap_or_default(), object.name.as_str());
        names.entry(&object.kind).or_default().insert(key);
    }
    let known = |kind: &str, namespace: &str, name: &str| {
        names.get(kind).is_some_and(|names| names.contains(&(namespace, name)))
    };
    let mut errors = Vec::new();
    for object in objects {
        let text = |path: &str| object.value.pointer(path).and_then(Value::as_str);
        let namespace = object.namespace.as_deref().unwrap_or_default();
        match object.kind.as_str() {
            "NodePool" => {
                let class = "/spec/template/spec/nodeClassRef";
                let kind = text(&format!("{class}/kind")).unwrap_or_default();
                let name = text(&format!("{class}/name")).unwrap_or_default();
                if !known(kind, "", name) {
                    let error = object.error(
                        "spec.template.spec.nodeClassRef",
                        format!("{kind} \"{name}\" is not in the input"),
                    );
                    errors.push(error.remedy("add the node class to the files, or correct the reference"));
                }
            }
            "PersistentVolumeClaim" if text("/spec/volumeName").is_none() => {
                if let Some(class) = text("/spec/storageClassName").filter(|class| !known("StorageClass", "", class)) {
                    let error = object.error(
                        "spec.storageClassName",
                        format!("StorageClass \"{class}\" is not in the input"),
                    );
                    errors.push(error.remedy("add the storage class to the files, or correct the name"));
                }
            }
            "Pod" => {
                let volumes = object
                    .value
                    .pointer("/spec/volumes")
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                let claims = volumes.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
                for claim in claims.filter(|claim| !known("PersistentVolumeClaim", namespace, claim)) {
                    let error = object.error(
                        "spec.volumes",
                        format!("PersistentVolumeClaim \"{claim}\" is not in the input"),
                    );
                    errors.push(error.remedy("add the claim to the files, or correct claimName"));
                }
            }
            _ => {}
        }
    }
    errors
}
