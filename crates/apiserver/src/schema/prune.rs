//! Pruning: removes unknown fields, and nulls that the schema does not allow.

use serde_json::Value;

use super::place::Place;
use super::structural::SchemaNode;

/// Fields of an object (or an embedded one) that are the server's own.
const OBJECT_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes unknown fields of a whole object and returns their paths in document order.
pub(super) fn unknown_fields(object: &mut Value, root: &SchemaNode) -> Vec<String> {
    let mut removed = Vec::new();
    prune(object, root, true, &Place::Root, &mut removed);
    removed
}

/// Removes the fields that the schema does not know, and adds their paths to `removed`.
fn prune(value: &mut Value, node: &SchemaNode, is_resource: bool, place: &Place<'_>, removed: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let own = |name: &str| is_resource && OBJECT_FIELDS.contains(&name);
            if !node.keeps_unknown() && node.additional.is_none() {
                map.retain(|name, _| {
                    let known = own(name) || node.properties.contains_key(name);
                    if !known {
                        removed.push(Place::Field(place, name).path());
                    }
                    known
                });
            }
            for (name, inner) in map.iter_mut().filter(|(name, _)| !own(name)) {
                if let Some(schema) = node.field(name) {
                    prune(
                        inner,
                        schema,
                        schema.embedded_resource,
                        &Place::Field(place, name),
                        removed,
                    );
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items.as_deref() {
                for (i, item) in items.iter_mut().enumerate() {
                    prune(item, schema, schema.embedded_resource, &Place::Item(place, i), removed);
                }
            }
        }
        _ => {}
    }
}

/// Removes null fields whose schema is not nullable, so that they are defaulted or reported as missing.
pub(super) fn nulls(value: &mut Value, node: &SchemaNode) {
    match value {
        Value::Object(map) => {
            map.retain(|name, inner| !inner.is_null() || node.field(name).is_none_or(|schema| schema.nullable));
            for (name, inner) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    nulls(inner, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items.as_deref() {
                for item in items {
                    nulls(item, schema);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> SchemaNode {
        SchemaNode::parse(
            &json!({"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "known": {"type": "string"},
                    "nullable": {"type": "string", "nullable": true},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                        "properties": {"typed": {"type": "object", "properties": {"a": {"type": "string"}}}}},
                    "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "list": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                    "embedded": {"type": "object", "x-kubernetes-embedded-resource": true,
                        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
                }}
            }}),
            "",
        )
        .expect("a schema")
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let mut object = json!({
            "apiVersion": "a/v1", "kind": "A", "metadata": {"name": "x", "odd": 1}, "extra": 1,
            "spec": {
                "known": "k", "typo": 1,
                "free": {"anything": {"goes": 1}, "typed": {"a": "1", "b": "2"}},
                "map": {"any": {"a": "1", "b": "2"}},
                "list": [{"a": "1"}, {"b": "2"}],
                "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"x": 1}, "status": {}},
            },
        });
        let mut removed = unknown_fields(&mut object, &schema());
        removed.sort();
        assert_eq!(
            removed,
            [
                "extra",
                "spec.embedded.status",
                "spec.free.typed.b",
                "spec.list[1].b",
                "spec.map.any.b",
                "spec.typo"
            ]
        );
        assert_eq!(
            object["spec"]["free"],
            json!({"anything": {"goes": 1}, "typed": {"a": "1"}})
        );
        assert_eq!(object["metadata"], json!({"name": "x", "odd": 1}));
        assert_eq!(object["spec"]["embedded"]["metadata"], json!({"name": "p"}));
    }

    #[test]
    fn nulls_stay_only_where_allowed() {
        let mut object = json!({"spec": {"known": null, "nullable": null, "free": {"x": null}, "map": {"a": null}}});
        nulls(&mut object, &schema());
        assert_eq!(
            object,
            json!({"spec": {"nullable": null, "free": {"x": null}, "map": {}}})
        );
    }
}
