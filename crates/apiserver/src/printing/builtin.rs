//! Which printer each built-in kind has, and what printers share.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, cluster, nodes, pods, storage, workloads};

/// The description of every age column.
pub(super) const AGE_DESCRIPTION: &str = "Time since the object was created.";

/// One column of a built-in kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    name: &'static str,
    ty: &'static str,
    priority: i64,
}

/// The first column of every table.
pub(super) const NAME: Column = Column {
    name: "Name",
    ty: "string",
    priority: 0,
};

/// A text column.
pub(super) const fn text(name: &'static str) -> Column {
    Column {
        name,
        ty: "string",
        priority: 0,
    }
}

/// A number column.
pub(super) const fn integer(name: &'static str) -> Column {
    Column {
        name,
        ty: "integer",
        priority: 0,
    }
}

/// A text column that only `-o wide` shows.
pub(super) const fn wide(name: &'static str) -> Column {
    Column {
        name,
        ty: "string",
        priority: 1,
    }
}

impl Column {
    /// The column as a Table declares it.
    pub(super) fn definition(&self) -> Value {
        let format = if self.name == "Name" { "name" } else { "" };
        let description = match self.name {
            "Name" => "Name must be unique within a namespace and is how the object is referred to.",
            "Age" => AGE_DESCRIPTION,
            _ => "",
        };
        json!({"name": self.name, "type": self.ty, "format": format, "description": description,
            "priority": self.priority})
    }
}

/// How the rows of a kind are made.
#[derive(Clone, Copy)]
pub(super) struct Printer {
    pub(super) columns: &'static [Column],
    pub(super) row: fn(&Value, Timestamp) -> Vec<Value>,
}

/// The kinds with columns of their own.
#[cfg(test)]
pub(super) const KINDS: [(&str, &str); 31] = [
    ("", "Pod"),
    ("", "Node"),
    ("", "Namespace"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("", "ConfigMap"),
    ("", "Secret"),
    ("", "Event"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "ReplicationController"),
    ("", "PodTemplate"),
    ("", "ResourceQuota"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("apps", "ControllerRevision"),
    ("batch", "Job"),
    ("batch", "CronJob"),
    ("policy", "PodDisruptionBudget"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("coordination.k8s.io", "Lease"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("events.k8s.io", "Event"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("unheard.of", "Thing"),
];

/// The printer of a built-in kind; name and age for a kind without its own.
pub(super) fn printer(group: &str, kind: &str) -> Printer {
    match (group, kind) {
        ("", "Pod") => pods::POD,
        ("", "PodTemplate") => workloads::POD_TEMPLATE,
        ("", "Node") => nodes::NODE,
        ("", "Namespace") => cluster::NAMESPACE,
        ("", "Service") => cluster::SERVICE,
        ("", "ServiceAccount") => cluster::SERVICE_ACCOUNT,
        ("", "ConfigMap") => cluster::CONFIG_MAP,
        ("", "Secret") => cluster::SECRET,
        ("", "ResourceQuota") => cluster::RESOURCE_QUOTA,
        ("" | "events.k8s.io", "Event") => cluster::EVENT,
        ("", "PersistentVolume") => storage::VOLUME,
        ("", "PersistentVolumeClaim") => storage::CLAIM,
        ("", "ReplicationController") | ("apps", "ReplicaSet") => workloads::REPLICA_SET,
        ("apps", "Deployment") => workloads::DEPLOYMENT,
        ("apps", "StatefulSet") => workloads::STATEFUL_SET,
        ("apps", "DaemonSet") => workloads::DAEMON_SET,
        ("apps", "ControllerRevision") => workloads::CONTROLLER_REVISION,
        ("batch", "Job") => workloads::JOB,
        ("batch", "CronJob") => workloads::CRON_JOB,
        ("policy", "PodDisruptionBudget") => workloads::DISRUPTION_BUDGET,
        ("storage.k8s.io", "StorageClass") => storage::CLASS,
        ("storage.k8s.io", "CSINode") => storage::CSI_NODE,
        ("storage.k8s.io", "CSIDriver") => storage::CSI_DRIVER,
        ("storage.k8s.io", "VolumeAttachment") => storage::ATTACHMENT,
        ("coordination.k8s.io", "Lease") => cluster::LEASE,
        ("scheduling.k8s.io", "PriorityClass") => cluster::PRIORITY_CLASS,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => cluster::DEFINITION,
        _ => DEFAULT,
    }
}

const DEFAULT: Printer = Printer {
    columns: &[NAME, text("Age")],
    row: |object, now| vec![name(object), age_of(object, now)],
};

/// The value at a path of field names.
pub(super) fn at<'a>(object: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(object, |value, key| value.get(key))
}

/// The text at a path, empty when it is absent.
pub(super) fn text_at<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    at(object, path).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a path, zero when it is absent.
pub(super) fn number_at(object: &Value, path: &[&str]) -> i64 {
    at(object, path).and_then(Value::as_i64).unwrap_or(0)
}

/// The list at a path, empty when it is absent.
pub(super) fn list_at<'a>(object: &'a Value, path: &[&str]) -> &'a [Value] {
    at(object, path)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

/// `text`, or `other` when it is empty.
pub(super) fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

/// The name cell.
pub(super) fn name(object: &Value) -> Value {
    text_at(object, &["metadata", "name"]).into()
}

/// The age cell.
pub(super) fn age_of(object: &Value, now: Timestamp) -> Value {
    age::since(at(object, &["metadata", "creationTimestamp"]), now).into()
}

/// Names and images of a pod template's containers, each joined by commas.
pub(super) fn containers(object: &Value, path: &[&str]) -> [Value; 2] {
    let column = |key: &str| {
        let texts: Vec<&str> = list_at(object, path)
            .iter()
            .filter_map(|c| c.get(key)?.as_str())
            .collect();
        Value::from(texts.join(","))
    };
    [column("name"), column("image")]
}

/// A label selector in the form `-l` takes.
pub(super) fn selector(selector: Option<&Value>) -> Value {
    let Some(selector) = selector.and_then(Value::as_object).filter(|s| !s.is_empty()) else {
        return "<none>".into();
    };
    let flat = !selector.contains_key("matchLabels") && !selector.contains_key("matchExpressions");
    let labels = if flat {
        Some(selector)
    } else {
        selector.get("matchLabels").and_then(Value::as_object)
    };
    let mut parts: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    parts.sort();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    parts.extend(expressions.into_iter().flatten().map(|e| {
        let values: Vec<&str> = list_at(e, &["values"]).iter().filter_map(Value::as_str).collect();
        let key = text_at(e, &["key"]);
        match text_at(e, &["operator"]) {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        }
    }));
    parts.join(",").into()
}
