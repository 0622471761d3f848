//! Fills absent fields with the defaults of the schema.

use serde_json::Value;

use super::structural::SchemaNode;

/// Sets every absent field that has a default, then the defaults inside what is there, new values included.
pub(super) fn apply(value: &mut Value, node: &SchemaNode) {
    match value {
        Value::Object(map) => {
            for (name, schema) in &node.properties {
                if let Some(default) = &schema.default
                    && map.get(name).is_none_or(|v| v.is_null() && !schema.nullable)
                {
                    map.insert(name.clone(), default.clone());
                }
            }
            for (name, inner) in map.iter_mut() {
                if let Some(schema) = node.field(name) {
                    fill_null(inner, schema);
                    apply(inner, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items.as_deref() {
                for item in items {
                    fill_null(item, schema);
                    apply(item, schema);
                }
            }
        }
        _ => {}
    }
}

fn fill_null(value: &mut Value, schema: &SchemaNode) {
    if value.is_null()
        && !schema.nullable
        && let Some(default) = &schema.default
    {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn defaults_nest_and_never_overwrite() {
        let schema = SchemaNode::parse(
            &json!({"type": "object", "properties": {
                "disruption": {"type": "object", "default": {"after": "0s"}, "properties": {
                    "after": {"type": "string"}, "policy": {"type": "string", "default": "P"}}},
                "status": {"type": "object", "properties": {"nodes": {"type": "integer", "default": 0}}},
                "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string", "default": "10%"}}}},
            }}),
            "",
        )
        .expect("a schema");
        let mut object = json!({"list": [{}, {"n": "1"}]});
        apply(&mut object, &schema);
        assert_eq!(
            object,
            json!({"disruption": {"after": "0s", "policy": "P"}, "list": [{"n": "10%"}, {"n": "1"}]})
        );
        let mut object = json!({"disruption": {}, "status": {}});
        apply(&mut object, &schema);
        assert_eq!(object, json!({"disruption": {"policy": "P"}, "status": {"nodes": 0}}));
    }
}
