//! Defaults and status of CustomResourceDefinitions.

use serde_json::{Value, json};

use crate::json;

/// The status of a new definition: this server accepts its names and serves it at once.
pub(crate) fn established(crd: &Value, at: &str) -> Value {
    let condition = |kind: &str, reason: &str, message: &str| json!({"type": kind, "status": "True", "lastTransitionTime": at, "reason": reason, "message": message});
    let names = json::at(crd, &["spec", "names"]).clone();
    let stored = json::items(crd, &["spec", "versions"])
        .iter()
        .filter(|v| json::at(v, &["storage"]).as_bool() == Some(true))
        .map(|v| json::at(v, &["name"]).clone());
    json!({
        "conditions": [
            condition("NamesAccepted", "NoConflicts", "no conflicts found"),
            condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        ],
        "acceptedNames": names,
        "storedVersions": stored.collect::<Vec<_>>(),
    })
}

/// Defaults of the names and the conversion.
pub(crate) fn default(crd: &mut Value) {
    let kind = json::text(crd, &["spec", "names", "kind"])
        .unwrap_or_default()
        .to_owned();
    let names = json::object_mut(crd, &["spec", "names"]);
    json::default(names, "singular", kind.to_lowercase());
    json::default(names, "listKind", format!("{kind}List"));
    json::default(
        json::object_mut(crd, &["spec"]),
        "conversion",
        json!({"strategy": "None"}),
    );
}

/// Updates accepted names and stored versions after a change of the spec.
pub(crate) fn refresh_status(crd: &mut Value) {
    let since = json::items(crd, &["status", "conditions"])
        .first()
        .and_then(|c| json::text(c, &["lastTransitionTime"]))
        .unwrap_or_default()
        .to_owned();
    let status = established(crd, &since);
    json::set(
        crd,
        &["status", "acceptedNames"],
        json::at(&status, &["acceptedNames"]).clone(),
    );
    let mut versions = json::items(crd, &["status", "storedVersions"]).to_vec();
    for version in json::items(&status, &["storedVersions"]) {
        if !versions.contains(version) {
            versions.push(version.clone());
        }
    }
    json::set(crd, &["status", "storedVersions"], Value::Array(versions));
}
