//! pods/binding: assigns a pod to a node and ends its nomination.

use http::Method;
use serde_json::{Value, json};

use super::Target;
use crate::error::ApiError;
use crate::handlers::answer::Answer;
use crate::handlers::call::Call;
use crate::json;
use crate::schema::FieldError;
use crate::state::{State, seconds};
use crate::write::Part;

/// Sets the node of the pod to the target of the binding.
pub(crate) fn answer(state: &mut State, call: &Call<'_>, at: &Target<'_>) -> Result<Answer, ApiError> {
    if *call.method != Method::POST {
        return Err(ApiError::method_not_allowed());
    }
    let binding = call.json_body()?;
    let Some(node) = json::text(&binding, &["target", "name"]) else {
        return Err(ApiError::invalid(
            at.resource,
            at.name,
            &[FieldError::required("target.name", "")],
        ));
    };
    if let Some(kind) = json::text(&binding, &["target", "kind"]).filter(|k| *k != "Node") {
        let cause = FieldError::not_supported("target.kind", &kind.into(), &["Node".into(), "<empty>".into()]);
        return Err(ApiError::invalid(at.resource, at.name, &[cause]));
    }
    let key = at.resource.key(at.namespace, at.name);
    let Some(live) = state.find("", "pods", &key).cloned() else {
        return Err(ApiError::not_found(at.resource, at.name));
    };
    let old = live.value();
    let conflict = |why: &str| Err(ApiError::conflict_about("pods/binding", "pods/binding", at.name, why));
    if let Some(uid) = json::text(&binding, &["metadata", "uid"])
        && json::text(&old, &["metadata", "uid"]) != Some(uid)
    {
        return conflict("Precondition failed: the pod has another UID than the binding names");
    }
    if live.deleting {
        return conflict(&format!(
            "pod {} is being deleted, cannot be assigned to a host",
            at.name
        ));
    }
    if let Some(bound) = json::text(&old, &["spec", "nodeName"]) {
        return conflict(&format!("pod {} is already assigned to node {bound:?}", at.name));
    }
    if !json::items(&old, &["spec", "schedulingGates"]).is_empty() {
        return conflict(&format!("pod {} has non-empty .spec.schedulingGates", at.name));
    }
    let mut new = (*old).clone();
    json::set(&mut new, &["spec", "nodeName"], node.into());
    for (key, value) in json::at(&binding, &["metadata", "annotations"])
        .as_object()
        .into_iter()
        .flatten()
    {
        json::set(&mut new, &["metadata", "annotations", key], value.clone());
    }
    set_scheduled(&mut new, &seconds(at.now));
    if let Some(status) = new.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("nominatedNodeName");
    }
    let mut write = call.write_at(at.resource, at.namespace)?;
    write.subresource = "binding";
    state.replace(&mut write, &live, &old, new, Part::Internal)?;
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    Ok(Answer::json(201, &status).warnings(write.warnings))
}

fn set_scheduled(pod: &mut Value, now: &str) {
    let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": now});
    let mut conditions = json::items(pod, &["status", "conditions"]).to_vec();
    match conditions.iter_mut().find(|c| c["type"] == "PodScheduled") {
        Some(found) => *found = condition,
        None => conditions.push(condition),
    }
    json::set(pod, &["status", "conditions"], Value::Array(conditions));
}
