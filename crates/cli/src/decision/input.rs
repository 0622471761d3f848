//! From manifests to a cluster: objects are judged as an API server would, decoded, and their references looked up.

use super::Input;
use super::capacity_buffers::Buffers;
use super::nominations::Nominations;
use crate::manifests::{InputError, Object, Objects, because, expand_workloads, unread};
use kerf_api::{EC2NodeClass, NodeClaim, NodeOverlay, NodePool, NodeRepairPolicy};
use kerf_apiserver::Admission;
use kerf_aws::options::AwsFeatureGates;
use kerf_disruption::Unread;
use kerf_state::ClusterObjects;
use kerf_state::lean::LeanPod;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The objects of a cluster by kind.
#[derive(Default)]
pub(crate) struct Cluster {
    pub(crate) objects: ClusterObjects,
    pub(crate) overlays: Vec<NodeOverlay>,
    /// EC2NodeClasses, which decide the instance types of their pools.
    pub(crate) ec2_classes: Vec<EC2NodeClass>,
    /// CapacityBuffers, and what describes the pods of each.
    pub(crate) buffers: Buffers,
    /// The pods that unlaunched claims were created for, where that is known.
    pub(crate) nominations: Nominations,
    /// The rules for unhealthy nodes besides those of the provider.
    pub(crate) repair_policies: Vec<NodeRepairPolicy>,
    /// What could not be read and may protect nodes.
    pub(crate) unread: Vec<Unread>,
    /// Kind and name of objects that were left out.
    pub(super) left_out: BTreeSet<(String, String)>,
}

/// A definition with the fields of the features that are on.
pub(crate) fn with_gates(crd: kerf_api::Crd, gates: AwsFeatureGates) -> kerf_api::Crd {
    kerf_api::with_later_kubelet_fields(crd, gates.node_class_cel, gates.extended_kubelet)
}

/// Admission of the built-in kinds, of Karpenter's and of Kerf's.
pub(super) fn admission(gates: AwsFeatureGates) -> Admission {
    let crds = kerf_api::crds(kerf_api::Provider::Core);
    let kwok = kerf_api::crds(kerf_api::Provider::Kwok);
    let aws = kerf_api::crds(kerf_api::Provider::Aws).into_iter();
    let aws: Vec<kerf_api::Crd> = aws.map(|crd| with_gates(crd, gates)).collect();
    let is_class = |crd: &&kerf_api::Crd| {
        ["kwoknodeclasses", "ec2nodeclasses"]
            .iter()
            .any(|name| crd.name.starts_with(name))
    };
    let classes = kwok.iter().chain(&aws).filter(is_class);
    Admission::new(crds.iter().chain(classes).map(|crd| &crd.value))
}

/// Reads the objects; what is wrong with one is reported and the object left out.
pub(super) fn read(found: Objects, admission: Admission) -> Input {
    let mut input = Input::default();
    let objects = input.begin(found);
    let mut objects = input.admit(objects, admission);
    input.cluster.buffers.take(&mut objects);
    input.errors.extend(expand_workloads(&mut objects));
    input.errors.extend(missing_references(&objects));
    input.decode(objects);
    input
}

/// The same for objects an API server has judged already, workloads and all they own among them.
pub(super) fn read_admitted(found: Objects) -> Input {
    let mut input = Input::default();
    let mut objects = input.begin(found);
    input.cluster.buffers.take(&mut objects);
    input.decode(objects);
    input
}

impl Input {
    /// Takes over what is known of objects before any is judged.
    fn begin(&mut self, found: Objects) -> Vec<Object> {
        self.errors = found.errors;
        self.notes = found.notes;
        self.cluster.unread = found.unread;
        found.objects
    }

    fn admit(&mut self, mut objects: Vec<Object>, mut admission: Admission) -> Vec<Object> {
        objects.retain_mut(|object| {
            let Err(problems) = admission.admit(with_uid(object)) else {
                return true;
            };
            let errors = problems.into_iter().map(|problem| {
                let error = object.error(problem.field.as_deref().unwrap_or_default(), problem.message);
                error.remedy("correct it; an API server would refuse the object too")
            });
            let unread = unread(&object.kind, &object.value);
            self.leave_out(object, unread, errors.collect());
            false
        });
        objects
    }

    fn decode(&mut self, objects: Vec<Object>) {
        for mut object in objects {
            let unread = unread(&object.kind, &object.value);
            let value = object.value.take();
            if let Err(problem) = self.cluster.add(&object.kind, value) {
                let field = match problem.path().iter().len() {
                    0 => String::new(),
                    _ => problem.path().to_string(),
                };
                let error = object.error(&field, format!("cannot be read: {}", problem.inner()));
                self.leave_out(&object, unread, vec![error.remedy("correct it")]);
            }
        }
    }

    fn leave_out(&mut self, object: &Object, unread: Option<Unread>, errors: Vec<InputError>) {
        let key = (object.kind.clone(), object.name.clone());
        self.cluster.left_out.insert(key);
        let unread = unread.map(|unread| because(unread, &errors));
        self.cluster.unread.extend(unread);
        self.errors.extend(errors);
    }
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
    /// The names of objects of a kind that were left out because they cannot be read.
    pub(crate) fn left_out(&self, kind: &str) -> impl Iterator<Item = &str> {
        let of_kind = self.left_out.iter().filter(move |(of, _)| of == kind);
        of_kind.map(|(_, name)| name.as_str())
    }

    /// A pod, as its object says.
    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<&LeanPod> {
        self.objects.pods.iter().find(|pod| {
            let meta = &pod.metadata;
            meta.name.as_deref() == Some(name) && meta.namespace.as_deref().unwrap_or("default") == namespace
        })
    }

    /// The names of instance types that nodes and claims are of, sorted.
    pub(super) fn instance_types(&self) -> BTreeSet<&str> {
        let nodes = self.objects.nodes.iter().map(|node| &node.metadata);
        let claims = self.objects.claims.iter().map(|claim| &claim.metadata);
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
        let launching = self.objects.claims.iter().filter(|claim| !launched(claim));
        launching.filter_map(|claim| claim.metadata.name.as_deref()).collect()
    }

    fn add(&mut self, kind: &str, value: Value) -> Result<(), Misfit> {
        let objects = &mut self.objects;
        match kind {
            "Pod" => objects.pods.push(decode(value)?),
            "Node" => objects.nodes.push(decode(value)?),
            "Namespace" => objects.namespaces.push(decode(value)?),
            "PersistentVolumeClaim" => objects.volume_claims.push(decode(value)?),
            "PersistentVolume" => objects.volumes.push(decode(value)?),
            "DaemonSet" => objects.daemon_sets.push(decode(value)?),
            "StorageClass" => objects.storage_classes.push(decode(value)?),
            "CSINode" => objects.csi_nodes.push(decode(value)?),
            "PodDisruptionBudget" => objects.pdbs.push(decode(value)?),
            "PriorityClass" => objects.priority_classes.push(decode(value)?),
            "NodePool" => objects.pools.push(decode::<NodePool>(value)?),
            "NodeClaim" => objects.claims.push(decode(value)?),
            "NodeRepairPolicy" => self.repair_policies.push(decode(value)?),
            "NodeOverlay" => self.overlays.push(decode(value)?),
            "EC2NodeClass" => self.ec2_classes.push(decode(value)?),
            // Other node classes matter by being there.
            _ => {}
        }
        Ok(())
    }
}

/// What does not fit its kind, and where.
type Misfit = serde_path_to_error::Error<serde_json::Error>;

fn decode<K: DeserializeOwned>(value: Value) -> Result<K, Misfit> {
    serde_path_to_error::deserialize(value)
}

/// References that lead nowhere: a pool's node class, an unbound claim's storage class, a pod's claim.
fn missing_references(objects: &[Object]) -> Vec<InputError> {
    let mut names: BTreeMap<&str, BTreeSet<(Option<&str>, &str)>> = BTreeMap::new();
    for object in objects {
        let key = (object.namespace.as_deref(), object.name.as_str());
        names.entry(&object.kind).or_default().insert(key);
    }
    let known = |kind: &str, namespace: Option<&str>, name: &str| {
        names.get(kind).is_some_and(|names| names.contains(&(namespace, name)))
    };
    let mut errors = Vec::new();
    for object in objects {
        let text = |path: &str| object.value.pointer(path).and_then(Value::as_str);
        match object.kind.as_str() {
            "NodePool" => {
                let class = "/spec/template/spec/nodeClassRef";
                let (kind, name) = (text(&format!("{class}/kind")), text(&format!("{class}/name")));
                // A NodePool without them cannot be decoded, which is an error of its own.
                let (Some(kind), Some(name)) = (kind, name) else {
                    continue;
                };
                if !known(kind, None, name) {
                    let error = object.error(
                        "spec.template.spec.nodeClassRef",
                        format!("{kind} \"{name}\" is not in the input"),
                    );
                    errors.push(error.remedy("add the node class to the files, or correct the reference"));
                }
            }
            "PersistentVolumeClaim" if text("/spec/volumeName").is_none() => {
                if let Some(class) = text("/spec/storageClassName").filter(|class| !known("StorageClass", None, class))
                {
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
                for claim in claims.filter(|claim| !known("PersistentVolumeClaim", object.namespace.as_deref(), claim))
                {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::objects_of;
    use kerf_disruption::ProtectedNodes;
    use serde_json::json;

    /// API servers of versions to come may hold what cannot be read here.
    #[test]
    fn what_a_server_holds_and_nobody_can_read_is_kept_in_mind() {
        let pod = |name: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec});
        let containers = json!([{"name": "c", "image": "i"}]);
        let list = json!({"apiVersion": "v1", "kind": "PodList", "items": [
            pod("fine", json!({"containers": containers})),
            pod("bound", json!({"containers": containers, "nodeName": "one", "priority": "high"})),
            pod("waiting", json!({"containers": containers, "priority": "high"})),
        ]});
        let input = read_admitted(objects_of(&"server".into(), vec![list]));
        assert_eq!(input.cluster.objects.pods.len(), 1);
        assert_eq!(input.errors.len(), 2);
        let unread = input.cluster.unread;
        let told: Vec<(Option<&str>, &ProtectedNodes)> = unread
            .iter()
            .map(|one| (one.name.as_deref(), &one.protected_nodes))
            .collect();
        assert_eq!(
            told,
            [
                (Some("bound"), &ProtectedNodes::Node("one".to_owned())),
                (Some("waiting"), &ProtectedNodes::None)
            ]
        );
        assert!(unread.iter().all(|one| one.problem.contains("high")), "{unread:?}");
        assert_eq!(
            input.errors[0].to_string(),
            "server: Pod shop/bound: spec.priority: cannot be read: invalid type: string \"high\", expected i32; correct it"
        );
    }
}
