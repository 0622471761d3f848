//! Validation of CustomResourceDefinitions themselves: enough to refuse what could not be served.

use serde_json::Value;

use super::field_error::{ErrorKind, FieldError, child, index};
use super::structural::{JsonType, ListType, SchemaNode};
use super::{prune, validate};

/// Errors of everything but the schemas.
pub(super) fn errors(crd: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, plural) = (text("/spec/group"), text("/spec/names/plural"));
    require_name(group, "spec.group", &mut out);
    require_name(plural, "spec.names.plural", &mut out);
    if text("/spec/names/kind").is_empty() {
        out.push(FieldError::required("spec.names.kind", ""));
    }
    let name = text("/metadata/name");
    if !group.is_empty() && !plural.is_empty() && name != format!("{plural}.{group}") {
        let message = "must be spec.names.plural+\".\"+spec.group";
        out.push(FieldError::invalid("metadata.name", &name.into(), message));
    }
    match text("/spec/scope") {
        "Cluster" | "Namespaced" => {}
        "" => out.push(FieldError::required("spec.scope", "")),
        other => {
            let supported = ["Cluster", "Namespaced"].map(Value::from);
            out.push(FieldError::not_supported("spec.scope", &other.into(), &supported));
        }
    }
    check_versions(crd, &mut out);
    out
}

fn require_name(value: &str, path: &str, out: &mut Vec<FieldError>) {
    let label = |part: &str| {
        !part.is_empty()
            && part.len() <= 63
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    if value.is_empty() {
        out.push(FieldError::required(path, ""));
    } else if !value.split('.').all(label) {
        let message = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                       and must start and end with an alphanumeric character";
        out.push(FieldError::invalid(path, &value.into(), message));
    }
}

fn check_versions(crd: &Value, out: &mut Vec<FieldError>) {
    let listed = crd
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if listed.is_empty() {
        out.push(FieldError::required("spec.versions", "must have at least one version"));
        return;
    }
    let mut names: Vec<&str> = Vec::new();
    for (i, version) in listed.iter().enumerate() {
        let path = index("spec.versions", i);
        let name = version.get("name").and_then(Value::as_str).unwrap_or_default();
        require_name(name, &child(&path, "name"), out);
        if names.contains(&name) {
            out.push(FieldError::new(
                ErrorKind::Duplicate,
                &child(&path, "name"),
                Some(name.into()),
                "",
            ));
        }
        names.push(name);
        if version.pointer("/schema/openAPIV3Schema").is_none() {
            let at = child(&path, "schema.openAPIV3Schema");
            out.push(FieldError::required(&at, "schemas are required"));
        }
        for key in ["served", "storage"] {
            if !version.get(key).is_some_and(Value::is_boolean) {
                out.push(FieldError::required(&child(&path, key), ""));
            }
        }
        check_columns(version, &path, out);
    }
    let stored = listed
        .iter()
        .filter(|v| v.get("storage").and_then(Value::as_bool) == Some(true))
        .count();
    if stored != 1 {
        let message = "must have exactly one version marked as storage version";
        out.push(FieldError::invalid("spec.versions", &Value::from(names), message));
    }
}

fn check_columns(version: &Value, path: &str, out: &mut Vec<FieldError>) {
    let columns = version.get("additionalPrinterColumns").and_then(Value::as_array);
    for (i, column) in columns.map(Vec::as_slice).unwrap_or_default().iter().enumerate() {
        let at = format!("{path}.additionalPrinterColumns[{i}]");
        let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("name").is_empty() {
            out.push(FieldError::required(&child(&at, "name"), ""));
        }
        if !matches!(text("type"), "integer" | "number" | "string" | "boolean" | "date") {
            let supported = ["boolean", "date", "integer", "number", "string"].map(Value::from);
            out.push(FieldError::not_supported(
                &child(&at, "type"),
                &text("type").into(),
                &supported,
            ));
        }
        if let Err(reason) = crate::printing::check_json_path(text("jsonPath")) {
            out.push(FieldError::invalid(
                &child(&at, "jsonPath"),
                &text("jsonPath").into(),
                reason,
            ));
        }
    }
}

/// Errors of one parsed schema: is it structural, and do its defaults obey it?
pub(super) fn schema_errors(root: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    if root.json_type != Some(JsonType::Object) {
        let found = root.json_type.map_or("", JsonType::name);
        out.push(FieldError::invalid(
            &child(path, "type"),
            &found.into(),
            "must be object at the root",
        ));
    }
    check_node(root, path, "specified object fields", out);
}

fn check_node(node: &SchemaNode, path: &str, place: &str, out: &mut Vec<FieldError>) {
    if node.json_type.is_none() && !node.int_or_string && !node.preserve_unknown {
        out.push(FieldError::required(
            &child(path, "type"),
            &format!("must not be empty for {place}"),
        ));
    }
    if node.json_type == Some(JsonType::Array) && node.items.is_none() {
        out.push(FieldError::required(&child(path, "items"), "must be specified"));
    }
    if node.additional.is_some() && !node.properties.is_empty() {
        let message = "additionalProperties and properties are mutual exclusive";
        out.push(FieldError::new(
            ErrorKind::Forbidden,
            &child(path, "additionalProperties"),
            None,
            message,
        ));
    }
    check_list_map(node, path, out);
    check_default(node, path, out);
    for (name, schema) in &node.properties {
        check_node(
            schema,
            &format!("{path}.properties[{name}]"),
            "specified object fields",
            out,
        );
    }
    if let Some(schema) = node.additional.as_deref() {
        check_node(
            schema,
            &child(path, "additionalProperties"),
            "specified object fields",
            out,
        );
    }
    if let Some(schema) = node.items.as_deref() {
        check_node(schema, &child(path, "items"), "specified array items", out);
    }
}

fn check_list_map(node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    if node.list_type != ListType::Map {
        return;
    }
    if node.list_map_keys.is_empty() {
        let message = "must not be empty if x-kubernetes-list-type is map";
        out.push(FieldError::required(
            &child(path, "x-kubernetes-list-map-keys"),
            message,
        ));
    }
    let Some(items) = node.items.as_deref() else { return };
    for key in &node.list_map_keys {
        match items.properties.get(key) {
            None => {
                let message = "entries must all be names of item properties";
                let at = child(path, "x-kubernetes-list-map-keys");
                out.push(FieldError::invalid(&at, &key.as_str().into(), message));
            }
            Some(schema) if schema.default.is_none() && !items.required.contains(key) => {
                let at = format!("{path}.items.properties[{key}].default");
                let message = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                               required property";
                out.push(FieldError::required(&at, message));
            }
            Some(_) => {}
        }
    }
}

fn check_default(node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    let Some(default) = &node.default else { return };
    let at = child(path, "default");
    let mut filled = default.clone();
    if let Some(unknown) = prune::unknown_fields(&mut filled, node).first() {
        let message = format!("must not have unknown field {unknown:?}");
        out.push(FieldError::invalid(&at, default, message));
    }
    super::defaults::apply(&mut filled, node);
    out.extend(validate::errors(&filled, None, node, &at));
}

#[cfg(test)]
mod tests {
    use super::super::CompiledCrd;
    use serde_json::{Value, json};

    fn crd() -> Value {
        json!({
            "metadata": {"name": "things.example.org"},
            "spec": {
                "group": "example.org", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
            },
        })
    }

    fn first_error(pointer: &str, value: Value) -> String {
        let mut crd = crd();
        *crd.pointer_mut(pointer).expect("the field exists") = value;
        CompiledCrd::compile(&crd).expect_err("refused")[0].to_string()
    }

    #[test]
    fn nonsense_is_refused_with_its_place() {
        assert!(CompiledCrd::compile(&crd()).is_ok());
        let schema = "/spec/versions/0/schema/openAPIV3Schema";
        let at = "spec.versions[0].schema.openAPIV3Schema";
        for (pointer, value, expected) in [
            (
                "/metadata/name",
                json!("x"),
                "metadata.name: Invalid value: \"x\": must be spec.names.plural+\".\"+spec.group".to_owned(),
            ),
            (
                "/spec/scope",
                json!("World"),
                "spec.scope: Unsupported value: \"World\": supported values: \"Cluster\", \"Namespaced\"".to_owned(),
            ),
            (
                "/spec/versions",
                json!([]),
                "spec.versions: Required value: must have at least one version".to_owned(),
            ),
            (
                "/spec/versions/0/storage",
                json!(false),
                "spec.versions: Invalid value: [\"v1\"]: must have exactly one version marked as storage version"
                    .to_owned(),
            ),
            (
                schema,
                json!({}),
                format!("{at}.type: Invalid value: \"\": must be object at the root"),
            ),
            (
                schema,
                json!({"type": "object", "properties": {"a": {}}}),
                format!("{at}.properties[a].type: Required value: must not be empty for specified object fields"),
            ),
            (
                schema,
                json!({"type": "object", "properties": {"a": {"type": "array"}}}),
                format!("{at}.properties[a].items: Required value: must be specified"),
            ),
            (
                schema,
                json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
                format!(
                    "{at}.properties[a].default: Invalid value: \"string\": {at}.properties[a].default in body must be of type integer: \"string\""
                ),
            ),
        ] {
            assert_eq!(first_error(pointer, value), expected);
        }
        assert!(
            first_error(
                schema,
                json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}})
            )
            .contains("must be a valid regular expression")
        );
    }
}
