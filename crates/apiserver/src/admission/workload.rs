//! Kinds that create pods: defaults, selectors that match their templates, immutable fields.

use std::borrow::Cow;

use kerf_units::cron::CronSchedule;
use serde_json::{Value, json};

use super::{Checks, pod, selector};
use crate::json;

/// Defaults of a workload object, by kind. Kinds without pods are left alone.
pub(crate) fn default(kind: &str, object: &mut Value) {
    match kind {
        "Deployment" => {
            let spec = json::object_mut(object, &["spec"]);
            json::default(spec, "replicas", 1);
            json::default(spec, "revisionHistoryLimit", 10);
            json::default(spec, "progressDeadlineSeconds", 600);
            rolling(
                object,
                "strategy",
                &[("maxUnavailable", json!("25%")), ("maxSurge", json!("25%"))],
            );
        }
        "ReplicaSet" => json::default(json::object_mut(object, &["spec"]), "replicas", 1),
        "ReplicationController" => {
            let labels = json::at(object, &["spec", "template", "metadata", "labels"]).clone();
            let spec = json::object_mut(object, &["spec"]);
            json::default(spec, "replicas", 1);
            json::default(spec, "selector", labels);
        }
        "StatefulSet" => default_stateful_set(object),
        "DaemonSet" => {
            json::default(json::object_mut(object, &["spec"]), "revisionHistoryLimit", 10);
            rolling(
                object,
                "updateStrategy",
                &[("maxUnavailable", json!(1)), ("maxSurge", json!(0))],
            );
        }
        "Job" => default_job(object),
        "CronJob" => {
            let spec = json::object_mut(object, &["spec"]);
            json::default(spec, "concurrencyPolicy", "Allow");
            json::default(spec, "suspend", false);
            json::default(spec, "successfulJobsHistoryLimit", 3);
            json::default(spec, "failedJobsHistoryLimit", 1);
        }
        _ => return,
    }
    if let Some(spec) = object.pointer_mut(template_pointer(kind)) {
        pod::default_spec(spec);
    }
}

fn template_pointer(kind: &str) -> &'static str {
    if kind == "CronJob" {
        "/spec/jobTemplate/spec/template/spec"
    } else {
        "/spec/template/spec"
    }
}

/// The strategy of a rollout; its numbers only where it is a rolling one.
fn rolling(object: &mut Value, field: &str, numbers: &[(&str, Value)]) {
    let strategy = json::object_mut(object, &["spec", field]);
    json::default(strategy, "type", "RollingUpdate");
    if strategy.get("type").and_then(Value::as_str) == Some("RollingUpdate") {
        let numbers_map = json::object_mut(object, &["spec", field, "rollingUpdate"]);
        for (name, value) in numbers {
            json::default(numbers_map, name, value.clone());
        }
    }
}

fn default_stateful_set(object: &mut Value) {
    let spec = json::object_mut(object, &["spec"]);
    json::default(spec, "replicas", 1);
    json::default(spec, "revisionHistoryLimit", 10);
    json::default(spec, "podManagementPolicy", "OrderedReady");
    let keep = json!({"whenDeleted": "Retain", "whenScaled": "Retain"});
    json::default(spec, "persistentVolumeClaimRetentionPolicy", keep);
    rolling(object, "updateStrategy", &[("partition", json!(0))]);
    for claim in json::array_mut(object, &["spec", "volumeClaimTemplates"])
        .into_iter()
        .flatten()
    {
        json::default(json::object_mut(claim, &[]), "apiVersion", "v1");
        json::default(json::object_mut(claim, &[]), "kind", "PersistentVolumeClaim");
        json::default(json::object_mut(claim, &["spec"]), "volumeMode", "Filesystem");
        json::default(json::object_mut(claim, &["status"]), "phase", "Pending");
    }
}

fn default_job(object: &mut Value) {
    let spec = json::object_mut(object, &["spec"]);
    if !spec.contains_key("parallelism") && !spec.contains_key("completions") {
        spec.insert("completions".to_owned(), 1.into());
    }
    json::default(spec, "parallelism", 1);
    json::default(spec, "backoffLimit", 6);
    json::default(spec, "completionMode", "NonIndexed");
    json::default(spec, "suspend", false);
    json::default(spec, "podReplacementPolicy", "TerminatingOrFailed");
    json::default(spec, "manualSelector", false);
}

/// A new job gets a selector of its own, by its uid.
pub(crate) fn own_job_selector(job: &mut Value) {
    if json::at(job, &["spec", "manualSelector"]).as_bool() == Some(true) {
        return;
    }
    let uid = json::at(job, &["metadata", "uid"]).clone();
    let name = json::at(job, &["metadata", "name"]).clone();
    let labels = json::object_mut(job, &["spec", "template", "metadata", "labels"]);
    for key in ["batch.kubernetes.io/controller-uid", "controller-uid"] {
        labels.insert(key.to_owned(), uid.clone());
    }
    for key in ["batch.kubernetes.io/job-name", "job-name"] {
        labels.insert(key.to_owned(), name.clone());
    }
    json::set(
        job,
        &["spec", "selector"],
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
    );
}

/// The status a new object begins with.
pub(crate) fn first_status(kind: &str) -> Option<Value> {
    match kind {
        "ReplicaSet" | "ReplicationController" => Some(json!({"replicas": 0})),
        "StatefulSet" => Some(json!({"replicas": 0, "availableReplicas": 0})),
        "DaemonSet" => Some(json!({
            "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
        })),
        "Deployment" | "Job" | "CronJob" => Some(json!({})),
        _ => None,
    }
}

/// Validates a workload object, and against `old` what may not change.
pub(crate) fn validate(kind: &str, object: &Value, old: Option<&Value>, checks: &mut Checks) {
    let policies: &[&str] = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" | "ReplicationController" => &["Always"],
        "Job" | "CronJob" => &["OnFailure", "Never"],
        _ => return,
    };
    let template = if kind == "CronJob" {
        "spec.jobTemplate.spec.template"
    } else {
        "spec.template"
    };
    if let Some(spec) = object.pointer(template_pointer(kind)) {
        pod::validate_spec(&format!("{template}.spec"), &with_claim_volumes(object, spec), checks);
        checks.one_of(&format!("{template}.spec"), spec, "restartPolicy", policies);
    }
    let spec = json::at(object, &["spec"]);
    for number in [
        "replicas",
        "minReadySeconds",
        "revisionHistoryLimit",
        "parallelism",
        "completions",
        "backoffLimit",
    ] {
        checks.not_negative("spec", spec, number);
    }
    if !matches!(kind, "Job" | "CronJob") {
        selector_matches(kind, spec, checks);
    }
    if kind == "CronJob" {
        schedule(spec, checks);
    }
    if let Some(old) = old {
        immutable(kind, object, old, checks);
    }
}

/// The schedule of a CronJob is there and can be read.
fn schedule(spec: &Value, checks: &mut Checks) {
    let value = json::at(spec, &["schedule"]);
    match value.as_str() {
        None | Some("") => checks.required("spec.schedule"),
        Some(text) => {
            if let Err(error) = text.parse::<CronSchedule>() {
                checks.invalid("spec.schedule", value, &error.to_string());
            }
        }
    }
}

/// The pods of a StatefulSet will have a volume for each claim template, which their containers may mount.
fn with_claim_volumes<'a>(object: &Value, spec: &'a Value) -> Cow<'a, Value> {
    let templates = json::items(object, &["spec", "volumeClaimTemplates"]);
    let names: Vec<&str> = templates
        .iter()
        .filter_map(|template| json::text(template, &["metadata", "name"]))
        .collect();
    if names.is_empty() {
        return Cow::Borrowed(spec);
    }
    let mut volumes = json::items(spec, &["volumes"]).to_vec();
    volumes.retain(|volume| json::text(volume, &["name"]).is_none_or(|name| !names.contains(&name)));
    volumes.extend(names.iter().map(|name| json!({"name": name, "emptyDir": {}})));
    let mut spec = spec.clone();
    json::set(&mut spec, &["volumes"], volumes.into());
    Cow::Owned(spec)
}

fn selector_matches(kind: &str, spec: &Value, checks: &mut Checks) {
    let selector = json::at(spec, &["selector"]);
    if kind != "ReplicationController" {
        selector::validate("spec.selector", selector, checks);
    }
    let wanted = if kind == "ReplicationController" {
        selector
    } else {
        json::at(selector, &["matchLabels"])
    };
    let labels = json::at(spec, &["template", "metadata", "labels"]);
    let expressions = json::items(selector, &["matchExpressions"]);
    if wanted.as_object().is_none_or(serde_json::Map::is_empty) && expressions.is_empty() {
        if selector.is_object() {
            checks.invalid("spec.selector", selector, "empty selector is invalid for deployment");
        }
        return;
    }
    let matches = wanted
        .as_object()
        .into_iter()
        .flatten()
        .all(|(k, v)| labels.get(k) == Some(v));
    if !matches {
        let why = "`selector` does not match template `labels`";
        checks.invalid("spec.template.metadata.labels", labels, why);
    }
}

fn immutable(kind: &str, new: &Value, old: &Value, checks: &mut Checks) {
    let same = |path: &[&str]| json::at(new, path) == json::at(old, path);
    match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" if !same(&["spec", "selector"]) => {
            checks.invalid(
                "spec.selector",
                json::at(new, &["spec", "selector"]),
                "field is immutable",
            );
        }
        "StatefulSet" => {
            let rest = |object: &Value| {
                let mut spec = json::at(object, &["spec"]).clone();
                for field in [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ] {
                    json::take(&mut spec, &[field]);
                }
                spec
            };
            if rest(new) != rest(old) {
                let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                           'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                           'minReadySeconds' are forbidden";
                checks.forbidden("spec", why);
            }
        }
        "Job" => {
            for field in ["selector", "template", "completionMode"] {
                if !same(&["spec", field]) {
                    let at = format!("spec.{field}");
                    checks.invalid(&at, json::at(new, &["spec", field]), "field is immutable");
                }
            }
        }
        _ => {}
    }
}
