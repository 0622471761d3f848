//! Expands workloads to the pods their controllers would create.

use super::error::InputError;
use super::kinds::Use;
use super::object::Object;
use kerf_model::selector::{LabelSelector, LabelSet, Match};
use serde_json::{Map, Value, json};
use std::collections::HashSet;
use std::sync::Arc;

/// The largest replica count that is accepted: more pods than any cluster runs, so a larger number is a typo.
const REPLICAS_MAX: i64 = 1_000_000;

/// Adds the pods (and the volume claims of templates) of every workload. Replicas that are in the input are not added again. A ReplicaSet
/// whose Deployment is in the input is not expanded itself. Returns errors of workloads that cannot be expanded.
pub(crate) fn expand_workloads(objects: &mut Vec<Object>) -> Vec<InputError> {
    let owners: HashSet<(String, String)> = objects
        .iter()
        .filter_map(|o| Some((o.kind.clone(), format!("{}/{}", o.namespace.as_deref()?, o.name))))
        .collect();
    let pods: Vec<Existing> = objects.iter().filter(|o| o.kind == "Pod").map(Existing::of).collect();
    let mut claims: HashSet<String> = objects
        .iter()
        .filter(|object| object.kind == "PersistentVolumeClaim")
        .filter_map(|object| Some(format!("{}/{}", object.namespace.as_deref()?, object.name)))
        .collect();
    let mut made = Vec::new();
    let mut errors = Vec::new();
    for workload in objects.iter().filter(|object| object.used == Use::Expands) {
        if is_owned(workload, &owners) {
            continue;
        }
        match Workload::of(workload) {
            Ok(workload) => workload.expand(&pods, &mut claims, &mut made),
            Err(error) => errors.push(*error),
        }
    }
    for pod in objects.iter().filter(|object| object.kind == "Pod") {
        made.extend(ephemeral_claims(pod, &mut claims));
    }
    objects.retain(|object| object.used != Use::Expands);
    objects.append(&mut made);
    errors
}

struct Existing {
    namespace: Option<String>,
    labels: LabelSet,
    name: String,
    /// Kind and name of its owners.
    owners: Vec<(String, String)>,
    finished: bool,
}

impl Existing {
    fn of(pod: &Object) -> Self {
        let phase = pod
            .value
            .pointer("/status/phase")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let deleting = pod
            .value
            .pointer("/metadata/deletionTimestamp")
            .is_some_and(|at| !at.is_null());
        Self {
            namespace: pod.namespace.clone(),
            labels: labels_of(pod.value.pointer("/metadata/labels")),
            name: pod.name.clone(),
            owners: owners(pod),
            finished: deleting || matches!(phase, "Succeeded" | "Failed"),
        }
    }
}

fn labels_of(value: Option<&Value>) -> LabelSet {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
        .collect()
}

fn owners(object: &Object) -> Vec<(String, String)> {
    let owners = object
        .value
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let text = |owner: &Value, field: &str| Some(owner.get(field)?.as_str()?.to_owned());
    let owners = owners.into_iter().flatten();
    owners
        .filter_map(|owner| Some((text(owner, "kind")?, text(owner, "name")?)))
        .collect()
}

fn is_owned(workload: &Object, present: &HashSet<(String, String)>) -> bool {
    let Some(namespace) = workload.namespace.as_deref() else {
        return false;
    };
    owners(workload)
        .into_iter()
        .any(|(kind, name)| present.contains(&(kind, format!("{namespace}/{name}"))))
}

struct Workload<'a> {
    object: &'a Object,
    template: &'a Value,
    replicas: i64,
    selector: LabelSelector,
    namespace: String,
}

impl<'a> Workload<'a> {
    fn of(object: &'a Object) -> Result<Self, Box<InputError>> {
        let field = |path: &str| object.value.pointer(path);
        let Some(template) =
            field("/spec/template").filter(|template| template.get("spec").is_some_and(Value::is_object))
        else {
            let error = object.error("spec.template.spec", "is missing");
            return Err(Box::new(error.remedy("give the workload a pod template")));
        };
        let replicas = if object.kind == "Job" {
            let parallelism = count(object, "parallelism", 1)?;
            let completions = count(object, "completions", parallelism)?;
            parallelism.min(completions)
        } else {
            count(object, "replicas", 1)?
        };
        let labels = template.pointer("/metadata/labels");
        let selector = match object.kind.as_str() {
            "Job" => LabelSelector::all([Match::any_of("job-name", [Arc::from(object.name.as_str())])]),
            "ReplicationController" => match_labels(field("/spec/selector").or(labels)),
            _ => match_labels(field("/spec/selector/matchLabels").or(labels)),
        };
        let Some(namespace) = object.namespace.clone() else {
            return Err(Box::new(object.error("metadata.namespace", "is missing")));
        };
        Ok(Self {
            object,
            template,
            replicas,
            selector,
            namespace,
        })
    }

    fn expand(&self, pods: &[Existing], claims: &mut HashSet<String>, made: &mut Vec<Object>) {
        let present: Vec<&Existing> = pods.iter().filter(|pod| self.has_made(pod)).collect();
        let wanted = usize::try_from(self.replicas)
            .unwrap_or(0)
            .saturating_sub(present.len());
        let taken: HashSet<&str> = present.iter().map(|pod| pod.name.as_str()).collect();
        let names = (0..).map(|index| (index, format!("{}-{index}", self.object.name)));
        for (index, name) in names.filter(|(_, name)| !taken.contains(name.as_str())).take(wanted) {
            let pod = self.pod(index, &name, claims, made);
            made.extend(ephemeral_claims(&pod, claims));
            made.push(pod);
        }
    }

    /// Whether an object of the input is one of the workload's replicas. Labels alone do not show that: a selector may match bystanders.
    fn has_made(&self, pod: &Existing) -> bool {
        if pod.finished || pod.namespace.as_ref() != Some(&self.namespace) || !self.selector.matches(&pod.labels) {
            return false;
        }
        let name = self.object.name.as_str();
        let of_this = |owner: &str| owner.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        if pod.owners.is_empty() {
            return of_this(&pod.name);
        }
        pod.owners.iter().any(|(kind, owner)| match self.object.kind.as_str() {
            "Deployment" => kind == "ReplicaSet" && of_this(owner),
            own => kind == own && owner == name,
        })
    }

    fn pod(&self, index: usize, name: &str, claims: &mut HashSet<String>, made: &mut Vec<Object>) -> Object {
        let api_version = self.object.value.get("apiVersion").cloned().unwrap_or_default();
        let mut metadata = self
            .template
            .get("metadata")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        metadata.insert("name".to_owned(), name.into());
        metadata.insert("namespace".to_owned(), self.namespace.clone().into());
        metadata.insert("uid".to_owned(), format!("{}/{name}", self.namespace).into());
        if let Some(created) = self.object.value.pointer("/metadata/creationTimestamp") {
            metadata.insert("creationTimestamp".to_owned(), created.clone());
        }
        // A Deployment's pods belong to its ReplicaSet; which one makes no difference to placement.
        let (owner_kind, owner_api) = match self.object.kind.as_str() {
            "Deployment" => ("ReplicaSet", json!("apps/v1")),
            kind => (kind, api_version),
        };
        let uid = self
            .object
            .value
            .pointer("/metadata/uid")
            .cloned()
            .unwrap_or_else(|| self.object.title().into());
        let owner = json!([{"apiVersion": owner_api, "kind": owner_kind, "name": self.object.name, "uid": uid, "controller": true}]);
        metadata.insert("ownerReferences".to_owned(), owner);
        let mut spec = self.template.get("spec").cloned().unwrap_or_default();
        let mut extra = Map::new();
        match self.object.kind.as_str() {
            "StatefulSet" => {
                extra.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.into());
                extra.insert("apps.kubernetes.io/pod-index".to_owned(), index.to_string().into());
                self.volume_templates(name, &mut spec, claims, made);
            }
            "Job" => {
                extra.insert("job-name".to_owned(), self.object.name.clone().into());
                extra.insert(
                    "batch.kubernetes.io/job-name".to_owned(),
                    self.object.name.clone().into(),
                );
            }
            _ => {}
        }
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.append(&mut extra);
        }
        let value = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
        self.derived("Pod", name, value)
    }

    /// Each claim template of a StatefulSet becomes a claim and the volume that names it.
    fn volume_templates(&self, pod: &str, spec: &mut Value, claims: &mut HashSet<String>, made: &mut Vec<Object>) {
        let templates = self
            .object
            .value
            .pointer("/spec/volumeClaimTemplates")
            .and_then(Value::as_array);
        for template in templates.into_iter().flatten() {
            let Some(volume) = template.pointer("/metadata/name").and_then(Value::as_str) else {
                continue;
            };
            let claim = format!("{volume}-{pod}");
            let reference = json!({"name": volume, "persistentVolumeClaim": {"claimName": claim}});
            if let Some(spec) = spec.as_object_mut() {
                let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
                if let Some(volumes) = volumes.as_array_mut() {
                    volumes.retain(|existing| existing.get("name") != Some(&volume.into()));
                    volumes.push(reference);
                }
            }
            if claims.insert(format!("{}/{claim}", self.namespace)) {
                made.push(self.derived(
                    "PersistentVolumeClaim",
                    &claim,
                    claim_object(&self.namespace, &claim, template),
                ));
            }
        }
    }

    fn derived(&self, kind: &str, name: &str, value: Value) -> Object {
        derived(self.object, kind, name, value)
    }
}

fn derived(from: &Object, kind: &str, name: &str, value: Value) -> Object {
    Object {
        origin: from.origin.clone(),
        kind: kind.to_owned(),
        used: Use::Counts,
        namespace: from.namespace.clone(),
        name: name.to_owned(),
        value,
    }
}

fn claim_object(namespace: &str, name: &str, template: &Value) -> Value {
    let spec = template.get("spec").cloned().unwrap_or_default();
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec})
}

/// The claims of generic ephemeral volumes, named `<pod>-<volume>`.
fn ephemeral_claims(pod: &Object, claims: &mut HashSet<String>) -> Vec<Object> {
    let Some(namespace) = pod.namespace.as_deref() else {
        return Vec::new();
    };
    let volumes = pod
        .value
        .pointer("/spec/volumes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let mut made = Vec::new();
    for volume in volumes {
        let name = volume.get("name").and_then(Value::as_str);
        let template = volume.pointer("/ephemeral/volumeClaimTemplate");
        let (Some(name), Some(template)) = (name, template) else {
            continue;
        };
        let claim = format!("{}-{name}", pod.name);
        if claims.insert(format!("{namespace}/{claim}")) {
            made.push(derived(
                pod,
                "PersistentVolumeClaim",
                &claim,
                claim_object(namespace, &claim, template),
            ));
        }
    }
    made
}

fn count(object: &Object, field: &str, default: i64) -> Result<i64, Box<InputError>> {
    let path = format!("spec.{field}");
    let Some(value) = object
        .value
        .pointer(&format!("/spec/{field}"))
        .filter(|value| !value.is_null())
    else {
        return Ok(default);
    };
    match value.as_i64() {
        Some(count) if (0..=REPLICAS_MAX).contains(&count) => Ok(count),
        Some(count) if count < 0 => Err(Box::new(
            object
                .error(&path, format!("{count} is negative"))
                .remedy("give zero or more"),
        )),
        Some(count) => {
            let problem = format!("{count} is more than {REPLICAS_MAX}");
            Err(Box::new(
                object
                    .error(&path, problem)
                    .remedy("give a number a cluster could hold"),
            ))
        }
        None => Err(Box::new(
            object
                .error(&path, format!("{value} is not a whole number"))
                .remedy("give a number"),
        )),
    }
}

fn match_labels(value: Option<&Value>) -> LabelSelector {
    let labels = labels_of(value);
    if labels.is_empty() {
        return LabelSelector::Nothing;
    }
    LabelSelector::all(labels.iter().map(|(key, value)| Match::any_of(key, [Arc::from(value)])))
}
