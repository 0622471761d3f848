//! Pods and PodDisruptionBudgets that cannot be read. What they protect is not known; their readable fields say which nodes they may concern.

use super::error::InputError;
use serde_json::Value;

/// An object that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unread {
    pub(crate) kind: &'static str,
    /// `None` if that cannot be read either.
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) problem: String,
    pub(crate) protected_nodes: ProtectedNodes,
}

/// The nodes that an object may protect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ProtectedNodes {
    /// No node: the pod is pending or has ended.
    None,
    Node(String),
    /// All nodes that run pods of its namespace.
    Unknown,
}

impl Unread {
    /// The readable fields of an object; `None` for kinds that protect nothing. [`because`](Self::because) adds the problem.
    pub(crate) fn of(kind: &str, written: &Value) -> Option<Self> {
        let (kind, protected_nodes) = match kind {
            "Pod" => ("Pod", ProtectedNodes::of_pod(written)),
            "PodDisruptionBudget" => ("PodDisruptionBudget", ProtectedNodes::Unknown),
            _ => return None,
        };
        let meta = written.get("metadata");
        let name = meta.and_then(|meta| meta.get("name")).and_then(Value::as_str);
        let namespace = match meta.and_then(|meta| meta.get("namespace")) {
            None | Some(Value::Null) => Some("default"),
            Some(Value::String(text)) if text.is_empty() => Some("default"),
            Some(namespace) => namespace.as_str(),
        };
        Some(Self {
            kind,
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
            problem: String::new(),
            protected_nodes,
        })
    }

    /// Adds the problem.
    pub(crate) fn because(mut self, errors: &[InputError]) -> Self {
        let problems = errors.iter().map(|error| match &error.field {
            Some(field) => format!("{field}: {}", error.problem),
            None => error.problem.clone(),
        });
        self.problem = problems.collect::<Vec<_>>().join("; ");
        self
    }
}

impl ProtectedNodes {
    fn of_pod(pod: &Value) -> Self {
        let phase = pod.pointer("/status/phase").and_then(Value::as_str);
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return Self::None;
        }
        let Some(spec) = pod.get("spec").and_then(Value::as_object) else {
            return Self::Unknown;
        };
        match spec.get("nodeName") {
            None | Some(Value::Null) => Self::None,
            Some(Value::String(name)) if name.is_empty() => Self::None,
            Some(Value::String(name)) => Self::Node(name.clone()),
            Some(_) => Self::Unknown,
        }
    }
}
