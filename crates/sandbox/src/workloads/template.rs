//! Pods made from templates.

use crate::object::controlled_by;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kerf_runtime::Outcome;
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

/// The name of a pod to create.
pub(super) enum PodName {
    Exact(String),
    /// The API server adds five characters.
    Prefix(String),
}

/// A pod from the template, with `owner` as its controller.
pub(super) fn pod<K>(owner: &K, template: &PodTemplateSpec, name: PodName) -> Pod
where
    K: Resource<DynamicType = ()>,
{
    let meta = template.metadata.clone().unwrap_or_default();
    let (name, generate_name) = match name {
        PodName::Exact(name) => (Some(name), None),
        PodName::Prefix(prefix) => (None, Some(prefix)),
    };
    Pod {
        metadata: ObjectMeta {
            name,
            generate_name,
            namespace: owner.namespace(),
            labels: meta.labels,
            annotations: meta.annotations,
            finalizers: meta.finalizers,
            owner_references: Some(vec![controlled_by(owner)]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

pub(super) fn spec_mut(pod: &mut Pod) -> &mut PodSpec {
    pod.spec.get_or_insert_with(PodSpec::default)
}

pub(super) fn label(pod: &mut Pod, key: &str, value: &str) {
    let labels = pod.metadata.labels.get_or_insert_with(Default::default);
    labels.insert(key.to_owned(), value.to_owned());
}

pub(super) fn annotate(pod: &mut Pod, key: &str, value: &str) {
    let annotations = pod.metadata.annotations.get_or_insert_with(Default::default);
    annotations.insert(key.to_owned(), value.to_owned());
}

/// When to reconcile again: after `min_ready_s` if pods are ready but not yet available, which changes without an event.
pub(super) fn until_available(some_wait: bool, min_ready_s: i32) -> Outcome {
    if some_wait {
        Outcome::RequeueAfter(Duration::from_secs(u64::try_from(min_ready_s).unwrap_or(1).max(1)))
    } else {
        Outcome::Done
    }
}

/// The condition, with the old transition time when the status is unchanged.
pub(crate) fn condition(known: &[Condition], new: Value, now: jiff::Timestamp) -> Value {
    let same = known
        .iter()
        .find(|old| new["type"] == old.type_.as_str() && new["status"] == old.status.as_str());
    let since = same.map_or_else(
        || json!(crate::object::seconds(now)),
        |old| json!(old.last_transition_time),
    );
    let mut new = new;
    new["lastTransitionTime"] = since;
    new
}
