//! Pods and PodDisruptionBudgets that cannot be read. What they protect is not known; their readable fields say which nodes they may concern.

use super::error::InputError;
use kerf_disruption::Unread;
use kerf_runtime::node_name;
use serde_json::Value;

/// The readable fields of an object; `None` for kinds that protect nothing. [`because`] adds the problem.
pub(crate) fn unread(kind: &str, written: &Value) -> Option<Unread> {
    let phase = written.pointer("/status/phase").and_then(Value::as_str);
    let meta = written.get("metadata");
    let name = meta.and_then(|meta| meta.get("name")).and_then(Value::as_str);
    let namespace = match meta.and_then(|meta| meta.get("namespace")) {
        None | Some(Value::Null) => Some("default"),
        Some(Value::String(text)) if text.is_empty() => Some("default"),
        Some(namespace) => namespace.as_str(),
    };
    Some(Unread {
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        ..Unread::of(kind, node_name(written), phase)?
    })
}

/// Adds the problem.
pub(crate) fn because(unread: Unread, errors: &[InputError]) -> Unread {
    let problems = errors.iter().map(|error| match &error.field {
        Some(field) => format!("{field}: {}", error.problem),
        None => error.problem.clone(),
    });
    Unread {
        problem: problems.collect::<Vec<_>>().join("; "),
        ..unread
    }
}
