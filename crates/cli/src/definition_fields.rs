//! Which fields of our custom resource definitions a cluster's definitions lack.

use crate::listed::listed;
use kerf_api::Provider;
use serde_json::Value;
use std::collections::BTreeSet;

/// The command that installs the definitions of a provider.
pub(crate) fn remedy(provider: Provider) -> &'static str {
    match provider {
        Provider::Aws => "`kerf crds --provider aws | kubectl apply --server-side --force-conflicts -f -` installs it",
        Provider::Kwok | Provider::Core => {
            "`kerf crds | kubectl apply --server-side --force-conflicts -f -` installs it"
        }
    }
}
/// How many missing fields a message names.
const FIELDS_SHOWN: usize = 3;

/// The fields that a schema lacks, as text such as `spec.replicas and 2 more`; `None` if it lacks none. Schemas are those of OpenAPI v3.
pub(crate) fn lacking(wanted: &Value, there: &Value) -> Option<String> {
    let (mut needed, mut known) = (BTreeSet::new(), BTreeSet::new());
    fields(wanted, "", &mut needed);
    fields(there, "", &mut known);
    let lacks: Vec<&str> = needed.difference(&known).map(String::as_str).collect();
    (!lacks.is_empty()).then(|| listed(&lacks, FIELDS_SHOWN))
}

/// The versions of a definition.
pub(crate) fn versions(crd: &Value) -> impl Iterator<Item = &Value> {
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten()
}

/// The schema of a version of a definition.
pub(crate) fn schema(version: &Value) -> &Value {
    version.pointer("/schema/openAPIV3Schema").unwrap_or(&Value::Null)
}

/// Collects the paths of all fields of a schema, as `spec.template.spec.taints[].key`.
fn fields(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        for (name, schema) in properties {
            let at = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            fields(schema, &at, found);
            found.insert(at);
        }
    }
    if let Some(items) = schema.get("items") {
        fields(items, &format!("{path}[]"), found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_fields_are_named_up_to_three() {
        let object = |fields: &[&str]| {
            let fields: serde_json::Map<String, Value> =
                fields.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
            json!({"properties": {"spec": {"properties": {"taints": {"items": {"properties": fields}}}}}})
        };
        let wanted = object(&["a", "b", "c", "d"]);
        assert_eq!(lacking(&wanted, &wanted), None);
        let one = lacking(&wanted, &object(&["a", "b", "c", "e"]));
        assert_eq!(one.as_deref(), Some("spec.taints[].d"));
        let all = lacking(&wanted, &object(&[]));
        assert_eq!(
            all.as_deref(),
            Some("spec.taints[].a, spec.taints[].b, spec.taints[].c and 1 more")
        );
    }
}
