//! Finding a field in a definition, and the patterns several fields share.

use kerf_api::{Crd, Provider, crds};
use serde_json::Value;

pub(crate) fn crd(provider: Provider, plural: &str) -> Crd {
    crds(provider)
        .into_iter()
        .find(|crd| crd.name.starts_with(&format!("{plural}.")))
        .unwrap()
}

/// The schema of a field: `spec.budgets[].nodes`, `[]` for items and `{}` for the values of a map.
pub(crate) fn field(provider: Provider, plural: &str, path: &str) -> Value {
    let crd = crd(provider, plural);
    let mut schema = &crd.value["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let name = part.trim_end_matches("[]").trim_end_matches("{}");
        schema = &schema["properties"][name];
        if part.ends_with("[]") {
            schema = &schema["items"];
        } else if part.ends_with("{}") {
            schema = &schema["additionalProperties"];
        }
        assert!(!schema.is_null(), "{plural} has no {path}");
    }
    schema.clone()
}

pub(crate) fn core(plural: &str, path: &str) -> Value {
    field(Provider::Core, plural, path)
}

/// The schema of a field without description, nested fields and rules.
pub(crate) fn facts(plural: &str, path: &str) -> Value {
    let mut schema = core(plural, path);
    let fields = schema.as_object_mut().unwrap();
    for key in [
        "description",
        "properties",
        "items",
        "additionalProperties",
        "x-kubernetes-validations",
    ] {
        fields.remove(key);
    }
    schema
}

pub(crate) fn messages(schema: &Value) -> Vec<&str> {
    let rules = schema["x-kubernetes-validations"].as_array();
    rules
        .into_iter()
        .flatten()
        .map(|rule| rule["message"].as_str().unwrap())
        .collect()
}

pub(crate) const LABEL_VALUE: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

pub(crate) const QUALIFIED_NAME: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(\/))?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";

pub(crate) const DURATION: &str = "^([0-9]+(s|m|h))+$";

pub(crate) const DURATION_OR_NEVER: &str = "^(([0-9]+(s|m|h))+|Never)$";

pub(crate) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";
