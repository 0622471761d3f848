//! The other built-in kinds: defaults, validation, immutable fields.

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Checks, selector};
use crate::json;
use crate::registry::Resource;
use crate::state::State;

/// Defaults of objects that make no pods.
pub(crate) fn default(state: &mut State, resource: &Resource, object: &mut Value) {
    match resource.kind.as_str() {
        "Namespace" => {
            let name = json::at(object, &["metadata", "name"]).clone();
            let labels = json::object_mut(object, &["metadata", "labels"]);
            json::default(labels, "kubernetes.io/metadata.name", name);
            json::default(json::object_mut(object, &["spec"]), "finalizers", json!(["kubernetes"]));
        }
        "Service" => default_service(state, object),
        "Secret" => {
            json::default(json::object_mut(object, &[]), "type", "Opaque");
            for (key, value) in json::take(object, &["stringData"])
                .iter()
                .filter_map(Value::as_object)
                .flatten()
            {
                let text = value.as_str().unwrap_or_default();
                let encoded = base64::engine::general_purpose::STANDARD.encode(text);
                json::set(object, &["data", key], encoded.into());
            }
        }
        "PersistentVolume" => {
            let spec = json::object_mut(object, &["spec"]);
            json::default(spec, "persistentVolumeReclaimPolicy", "Retain");
            json::default(spec, "volumeMode", "Filesystem");
        }
        "PersistentVolumeClaim" => {
            json::default(json::object_mut(object, &["spec"]), "volumeMode", "Filesystem");
            default_storage_class(state, object);
        }
        "StorageClass" => {
            let class = json::object_mut(object, &[]);
            json::default(class, "reclaimPolicy", "Delete");
            json::default(class, "volumeBindingMode", "Immediate");
        }
        "PriorityClass" => {
            json::default(
                json::object_mut(object, &[]),
                "preemptionPolicy",
                "PreemptLowerPriority",
            );
        }
        "CSIDriver" => {
            let spec = json::object_mut(object, &["spec"]);
            json::default(spec, "attachRequired", true);
            json::default(spec, "podInfoOnMount", false);
            json::default(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
        "CustomResourceDefinition" => super::definitions::default(object),
        "LimitRange" => super::limit_range::default(object),
        _ => {}
    }
}

/// The status a new object begins with.
pub(crate) fn first_status(kind: &str) -> Option<Value> {
    match kind {
        "Namespace" => Some(json!({"phase": "Active"})),
        "Service" => Some(json!({"loadBalancer": {}})),
        "PersistentVolume" | "PersistentVolumeClaim" => Some(json!({"phase": "Pending"})),
        "PodDisruptionBudget" => Some(json!({
            "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0,
        })),
        "VolumeAttachment" => Some(json!({"attached": false})),
        _ => None,
    }
}

/// Keeps pods off a Node that is created until a controller finds it ready, as the admission plugin `TaintNodesByCondition` does.
pub(crate) fn taint_new_node(node: &mut Value) {
    if !matches!(json::at(node, &["spec"]), Value::Null | Value::Object(_)) {
        return;
    }
    let spec = json::object_mut(node, &["spec"]);
    json::default(spec, "taints", json!([]));
    let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut) else {
        return;
    };
    let (key, effect) = ("node.kubernetes.io/not-ready", "NoSchedule");
    let is_there = |taint: &Value| taint["key"] == key && taint["effect"] == effect;
    if !taints.iter().any(is_there) {
        taints.push(json!({"key": key, "effect": effect}));
    }
}

fn default_service(state: &mut State, service: &mut Value) {
    let spec = json::object_mut(service, &["spec"]);
    json::default(spec, "type", "ClusterIP");
    json::default(spec, "sessionAffinity", "None");
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        json::default(spec, "internalTrafficPolicy", "Cluster");
        if !spec.contains_key("clusterIP") {
            // No traffic is routed: the address only has to have the right form.
            let bits = state.random.next();
            spec.insert(
                "clusterIP".to_owned(),
                format!("10.96.{}.{}", bits >> 8 & 0xff, bits & 0xff).into(),
            );
        }
        let address = spec.get("clusterIP").cloned().unwrap_or_default();
        json::default(spec, "clusterIPs", json!([address]));
    }
    for port in json::array_mut(service, &["spec", "ports"]).into_iter().flatten() {
        let number = json::at(port, &["port"]).clone();
        let port = json::object_mut(port, &[]);
        json::default(port, "protocol", "TCP");
        json::default(port, "targetPort", number);
    }
}

/// A claim that names no class gets the default one, the newest if there are several.
fn default_storage_class(state: &State, claim: &mut Value) {
    if !json::at(claim, &["spec", "storageClassName"]).is_null() {
        return;
    }
    let key = "storageclass.kubernetes.io/is-default-class";
    let classes = state.table_id("storage.k8s.io", "storageclasses").into_iter();
    let default = classes
        .flat_map(|id| state.table(id).range(None))
        .map(|c| c.value())
        .filter(|c| json::text(c, &["metadata", "annotations", key]) == Some("true"))
        .max_by_key(|c| json::text(c, &["metadata", "creationTimestamp"]).map(str::to_owned));
    if let Some(name) = default.as_ref().and_then(|c| json::text(c, &["metadata", "name"])) {
        json::set(claim, &["spec", "storageClassName"], name.into());
    }
}

/// Validates objects that make no pods, and against `old` what may not change.
pub(crate) fn validate(kind: &str, object: &Value, old: Option<&Value>, checks: &mut Checks) {
    match kind {
        "Node" => validate_taints(object, checks),
        "PodDisruptionBudget" => {
            let spec = json::at(object, &["spec"]);
            selector::validate("spec.selector", json::at(spec, &["selector"]), checks);
            if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
                checks.invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set");
            }
            for field in ["minAvailable", "maxUnavailable"] {
                validate_count_or_percentage(&format!("spec.{field}"), json::at(spec, &[field]), checks);
            }
            checks.one_of(
                "spec",
                spec,
                "unhealthyPodEvictionPolicy",
                &["AlwaysAllow", "IfHealthyBudget"],
            );
        }
        "PersistentVolumeClaim" => validate_claim(object, old, checks),
        "PersistentVolume" => {
            if json::at(object, &["spec", "capacity"])
                .as_object()
                .is_none_or(serde_json::Map::is_empty)
            {
                checks.required("spec.capacity");
            }
            if json::items(object, &["spec", "accessModes"]).is_empty() {
                checks.required("spec.accessModes");
            }
        }
        "StorageClass" => {
            checks.one_of("", object, "volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]);
            checks.one_of("", object, "reclaimPolicy", &["Delete", "Retain"]);
            checks.unchanged(
                object,
                old,
                &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
            );
        }
        "PriorityClass" => {
            checks.one_of("", object, "preemptionPolicy", &["PreemptLowerPriority", "Never"]);
            checks.unchanged(object, old, &["value", "preemptionPolicy"]);
            let name = json::text(object, &["metadata", "name"]).unwrap_or_default();
            if name.starts_with("system-") && !matches!(name, "system-node-critical" | "system-cluster-critical") {
                let why = "priority class names with 'system-' prefix are reserved for system use only";
                checks.forbidden("metadata.name", why);
            }
        }
        "Lease" => {
            let seconds = json::at(object, &["spec", "leaseDurationSeconds"]);
            if seconds.as_i64().is_some_and(|s| s <= 0) {
                checks.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0");
            }
        }
        "ConfigMap" | "Secret" => immutable_data(kind, object, old, checks),
        _ => {}
    }
}

fn validate_taints(node: &Value, checks: &mut Checks) {
    let taints = json::items(node, &["spec", "taints"]);
    for (i, taint) in taints.iter().enumerate() {
        let path = format!("spec.taints[{i}]");
        checks.one_of(&path, taint, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
        let identity = |t: &Value| (json::at(t, &["key"]).clone(), json::at(t, &["effect"]).clone());
        if taints.iter().take(i).any(|t| identity(t) == identity(taint)) {
            checks.duplicate(&path, taint);
        }
    }
    for field in ["capacity", "allocatable"] {
        for (name, amount) in json::at(node, &["status", field]).as_object().into_iter().flatten() {
            if json::quantity(amount).is_some_and(|amount| amount.is_negative()) {
                checks.invalid(
                    &format!("status.{field}[{name}]"),
                    amount,
                    "must be greater than or equal to 0",
                );
            }
        }
    }
}

fn validate_count_or_percentage(path: &str, value: &Value, checks: &mut Checks) {
    match value {
        Value::String(text) => {
            let percent = text.strip_suffix('%').and_then(|n| n.parse::<u32>().ok());
            match percent {
                None => checks.invalid(
                    path,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', \
                     regex used for validation is '[0-9]+%')",
                ),
                Some(percent) if percent > 100 => checks.invalid(path, value, "must not be greater than 100%"),
                Some(_) => {}
            }
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            checks.invalid(path, value, "must be greater than or equal to 0");
        }
        _ => {}
    }
}

fn validate_claim(claim: &Value, old: Option<&Value>, checks: &mut Checks) {
    if json::items(claim, &["spec", "accessModes"]).is_empty() {
        checks.required("spec.accessModes");
    }
    if json::text(claim, &["spec", "resources", "requests", "storage"]).is_none() {
        checks.required("spec.resources[storage]");
    }
    let Some(old) = old else {
        return;
    };
    let rest = |claim: &Value| {
        let mut spec = json::at(claim, &["spec"]).clone();
        json::take(&mut spec, &["resources", "requests"]);
        json::take(&mut spec, &["volumeAttributesClassName"]);
        spec
    };
    let (mut before, after) = (rest(old), rest(claim));
    // The binder fills in what was empty.
    for field in ["volumeName", "storageClassName"] {
        if before.get(field).is_none() {
            json::copy(&after, &mut before, &[field]);
        }
    }
    if before != after {
        let why = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound \
                   claims";
        checks.forbidden("spec", why);
    }
}

fn immutable_data(kind: &str, object: &Value, old: Option<&Value>, checks: &mut Checks) {
    let Some(old) = old else {
        return;
    };
    if kind == "Secret" && json::at(object, &["type"]) != json::at(old, &["type"]) {
        checks.invalid("type", json::at(object, &["type"]), "field is immutable");
    }
    if json::at(old, &["immutable"]).as_bool() == Some(true) {
        for field in ["data", "binaryData", "immutable"] {
            if json::at(object, &[field]) != json::at(old, &[field]) {
                checks.forbidden(field, "field is immutable when `immutable` is set");
            }
        }
    }
}
