//! Structural validation: types, bounds, patterns, enumerations, required fields, duplicates and logical branches.
//!
//! On updates a value that did not change is not judged again, so that a tightened schema does not lock stored objects.

use serde_json::{Number, Value};

use super::field_error::{ErrorKind, FieldError, child, index};
use super::formats;
use super::structural::{JsonType, ListType, SchemaNode};

/// All errors of `value`; `old` is what stood there before.
pub(super) fn errors(value: &Value, old: Option<&Value>, node: &SchemaNode, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    check(value, old, node, path, &mut out);
    out
}

/// The entry of an old list that `item` continues: the one with the same map keys.
pub(super) fn correlated<'a>(item: &Value, old: Option<&'a Value>, node: &SchemaNode) -> Option<&'a Value> {
    if node.list_type != ListType::Map {
        return None;
    }
    let same = |other: &&Value| node.list_map_keys.iter().all(|key| other.get(key) == item.get(key));
    old?.as_array()?.iter().find(same)
}

fn check(value: &Value, old: Option<&Value>, node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    if old == Some(value) || (value.is_null() && node.nullable) {
        return;
    }
    if !check_type(value, node, path, out) {
        return;
    }
    if !node.enumeration.is_empty() && !node.enumeration.contains(value) {
        out.push(FieldError::not_supported(path, value, &node.enumeration));
    }
    match value {
        Value::String(text) => check_string(text, value, node, path, out),
        Value::Number(number) => check_number(number, value, node, path, out),
        Value::Array(items) => check_list(items, value, old, node, path, out),
        Value::Object(map) => check_object(map, value, old, node, path, out),
        Value::Null | Value::Bool(_) => {}
    }
    check_branches(value, node, path, out);
}

fn in_body(path: &str) -> String {
    format!("{path} in body")
}

/// The JSON type name of a value as messages show it.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() && !is_integral(n) => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_integral(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|f| f.fract().abs() < f64::EPSILON)
}

fn check_type(value: &Value, node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) -> bool {
    let integral = matches!(value, Value::Number(n) if is_integral(n));
    let (fits, wanted) = if node.int_or_string {
        (integral || value.is_string(), "integer,string")
    } else {
        match node.json_type {
            None => (true, ""),
            Some(JsonType::Integer) => (integral, "integer"),
            Some(wanted) => (
                match wanted {
                    JsonType::Object => value.is_object(),
                    JsonType::Array => value.is_array(),
                    JsonType::String => value.is_string(),
                    JsonType::Boolean => value.is_boolean(),
                    JsonType::Integer | JsonType::Number => value.is_number(),
                },
                wanted.name(),
            ),
        }
    };
    if !fits {
        let found = type_name(value);
        let message = format!("{} must be of type {wanted}: {found:?}", in_body(path));
        out.push(FieldError::new(
            ErrorKind::TypeInvalid,
            path,
            Some(found.into()),
            message,
        ));
    }
    fits
}

fn check_string(text: &str, value: &Value, node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    let length = text.chars().count() as u64;
    if let Some(max) = node.length.max.filter(|max| length > *max) {
        out.push(FieldError::new(
            ErrorKind::TooLong,
            path,
            None,
            format!("may not be more than {max} bytes"),
        ));
    }
    if let Some(min) = node.length.min.filter(|min| length < *min) {
        let message = format!("{} should be at least {min} chars long", in_body(path));
        out.push(FieldError::invalid(path, value, message));
    }
    if let Some(pattern) = node.pattern.as_ref().filter(|p| !p.matches(text)) {
        let message = format!("{} should match '{}'", in_body(path), pattern.source);
        out.push(FieldError::invalid(path, value, message));
    }
    if let Some(format) = node.format.as_deref().filter(|f| !formats::matches(f, text)) {
        let message = format!("{} must be of type {format}: {text:?}", in_body(path));
        out.push(FieldError::invalid(path, value, message));
    }
}

fn check_number(number: &Number, value: &Value, node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    let bounds = &node.number;
    let mut refuse = |text: String| out.push(FieldError::invalid(path, value, format!("{} {text}", in_body(path))));
    if let Some(min) = &bounds.minimum {
        match (compare(number, min), bounds.exclusive_minimum) {
            (std::cmp::Ordering::Less, false) => refuse(format!("should be greater than or equal to {min}")),
            (std::cmp::Ordering::Less | std::cmp::Ordering::Equal, true) => {
                refuse(format!("should be greater than {min}"));
            }
            _ => {}
        }
    }
    if let Some(max) = &bounds.maximum {
        match (compare(number, max), bounds.exclusive_maximum) {
            (std::cmp::Ordering::Greater, false) => refuse(format!("should be less than or equal to {max}")),
            (std::cmp::Ordering::Greater | std::cmp::Ordering::Equal, true) => {
                refuse(format!("should be less than {max}"));
            }
            _ => {}
        }
    }
    if let (Some(step), Some(n)) = (bounds.multiple_of, number.as_f64())
        && step > 0.0
        && ((n / step) - (n / step).round()).abs() > 1e-9
    {
        refuse(format!("should be a multiple of {step}"));
    }
    let in_range = match node.format.as_deref() {
        Some("int32") => {
            number.as_i64().is_none_or(|n| i32::try_from(n).is_ok())
                && number.as_u64().is_none_or(|n| n <= i32::MAX as u64)
        }
        Some("int64") => !number.is_u64() || number.as_i64().is_some(),
        _ => true,
    };
    if !in_range {
        let format = node.format.as_deref().unwrap_or_default();
        out.push(FieldError::invalid(
            path,
            value,
            format!("Checked value must be integer with format {format} in {path}"),
        ));
    }
}

fn compare(a: &Number, b: &Number) -> std::cmp::Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a
            .as_f64()
            .unwrap_or(f64::NAN)
            .total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
    }
}

fn check_list(
    items: &[Value],
    value: &Value,
    old: Option<&Value>,
    node: &SchemaNode,
    path: &str,
    out: &mut Vec<FieldError>,
) {
    let count = items.len() as u64;
    if let Some(max) = node.items_count.max.filter(|max| count > *max) {
        let message = format!("must have at most {max} items");
        out.push(FieldError::new(ErrorKind::TooMany, path, Some(count.into()), message));
    }
    if let Some(min) = node.items_count.min.filter(|min| count < *min) {
        let message = format!("{} should have at least {min} items", in_body(path));
        out.push(FieldError::invalid(path, &count.into(), message));
    }
    if let Some(schema) = node.items.as_deref() {
        for (i, item) in items.iter().enumerate() {
            check(item, correlated(item, old, node), schema, &index(path, i), out);
        }
    }
    if node.unique_items
        && items
            .iter()
            .enumerate()
            .any(|(i, item)| items.iter().take(i).any(|before| before == item))
    {
        out.push(FieldError::invalid(
            path,
            value,
            format!("{} shouldn't contain duplicates", in_body(path)),
        ));
    }
    check_duplicates(items, node, path, out);
}

fn check_duplicates(items: &[Value], node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    let identity = |item: &Value| match node.list_type {
        ListType::Atomic => None,
        ListType::Set => Some(item.clone()),
        ListType::Map => {
            let keys = node.list_map_keys.iter();
            Some(Value::Object(
                keys.filter_map(|k| Some((k.clone(), item.get(k)?.clone()))).collect(),
            ))
        }
    };
    let mut seen: Vec<Value> = Vec::new();
    for (i, item) in items.iter().enumerate() {
        let Some(id) = identity(item) else { return };
        if seen.contains(&id) {
            out.push(FieldError::new(ErrorKind::Duplicate, &index(path, i), Some(id), ""));
        } else {
            seen.push(id);
        }
    }
}

fn check_object(
    map: &serde_json::Map<String, Value>,
    value: &Value,
    old: Option<&Value>,
    node: &SchemaNode,
    path: &str,
    out: &mut Vec<FieldError>,
) {
    let count = map.len() as u64;
    if let Some(max) = node.properties_count.max.filter(|max| count > *max) {
        let message = format!("must have at most {max} items");
        out.push(FieldError::new(ErrorKind::TooMany, path, Some(count.into()), message));
    }
    if let Some(min) = node.properties_count.min.filter(|min| count < *min) {
        let message = format!("{} should have at least {min} properties", in_body(path));
        out.push(FieldError::invalid(path, &count.into(), message));
    }
    for name in node.required.iter().filter(|name| !map.contains_key(*name)) {
        out.push(FieldError::required(&child(path, name), ""));
    }
    if node.embedded_resource {
        for name in ["apiVersion", "kind"] {
            if value.get(name).and_then(Value::as_str).is_none_or(str::is_empty) {
                out.push(FieldError::required(&child(path, name), "must not be empty"));
            }
        }
    }
    for (name, inner) in map {
        if let Some(schema) = node.field(name) {
            check(inner, old.and_then(|o| o.get(name)), schema, &child(path, name), out);
        }
    }
}

fn check_branches(value: &Value, node: &SchemaNode, path: &str, out: &mut Vec<FieldError>) {
    let empty = Value::String(String::new());
    let refuse = |out: &mut Vec<FieldError>, text: &str| {
        out.push(FieldError::invalid(path, &empty, format!("{path:?} must {text}")));
    };
    for branch in &node.all_of {
        let failed = errors(value, None, branch, path);
        if !failed.is_empty() {
            out.extend(failed);
            refuse(out, "validate all the schemas (allOf)");
        }
    }
    // An int-or-string lists its two types in anyOf; the type check has judged them already.
    if !node.any_of.is_empty() && !node.int_or_string {
        let results: Vec<_> = node.any_of.iter().map(|b| errors(value, None, b, path)).collect();
        if results.iter().all(|r| !r.is_empty()) {
            refuse(out, "validate at least one schema (anyOf)");
            out.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
        }
    }
    if !node.one_of.is_empty() {
        let results: Vec<_> = node.one_of.iter().map(|b| errors(value, None, b, path)).collect();
        match results.iter().filter(|r| r.is_empty()).count() {
            1 => {}
            0 => {
                refuse(out, "validate one and only one schema (oneOf). Found none valid");
                out.extend(results.into_iter().min_by_key(Vec::len).unwrap_or_default());
            }
            many => refuse(
                out,
                &format!("validate one and only one schema (oneOf). Found {many} valid alternatives"),
            ),
        }
    }
    if node
        .not
        .as_deref()
        .is_some_and(|branch| errors(value, None, branch, path).is_empty())
    {
        refuse(out, "not validate the schema (not)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let node = SchemaNode::parse(schema, "").expect("a schema");
        errors(value, old, &node, "spec")
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn each_keyword_has_its_text() {
        for (schema, value, expected) in [
            (
                json!({"type": "integer"}),
                json!("x"),
                "spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
            ),
            (
                json!({"type": "integer"}),
                json!(1.5),
                "spec: Invalid value: \"number\": spec in body must be of type integer: \"number\"",
            ),
            (
                json!({"type": "string"}),
                json!(null),
                "spec: Invalid value: \"null\": spec in body must be of type string: \"null\"",
            ),
            (
                json!({"x-kubernetes-int-or-string": true}),
                json!(true),
                "spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
            ),
            (
                json!({"type": "integer", "minimum": 1}),
                json!(0),
                "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
            ),
            (
                json!({"type": "integer", "maximum": 100}),
                json!(101),
                "spec: Invalid value: 101: spec in body should be less than or equal to 100",
            ),
            (
                json!({"type": "number", "minimum": 0, "exclusiveMinimum": true}),
                json!(0),
                "spec: Invalid value: 0: spec in body should be greater than 0",
            ),
            (
                json!({"type": "number", "multipleOf": 0.5}),
                json!(0.7),
                "spec: Invalid value: 0.7: spec in body should be a multiple of 0.5",
            ),
            (
                json!({"type": "integer", "format": "int32"}),
                json!(3_000_000_000_u64),
                "spec: Invalid value: 3000000000: Checked value must be integer with format int32 in spec",
            ),
            (
                json!({"type": "string", "maxLength": 2}),
                json!("abc"),
                "spec: Too long: may not be more than 2 bytes",
            ),
            (
                json!({"type": "string", "minLength": 1}),
                json!(""),
                "spec: Invalid value: \"\": spec in body should be at least 1 chars long",
            ),
            (
                json!({"type": "string", "pattern": "^a$"}),
                json!("b"),
                "spec: Invalid value: \"b\": spec in body should match '^a$'",
            ),
            (
                json!({"type": "string", "format": "date-time"}),
                json!("now"),
                "spec: Invalid value: \"now\": spec in body must be of type date-time: \"now\"",
            ),
            (
                json!({"type": "string", "enum": ["a", "b"]}),
                json!("c"),
                "spec: Unsupported value: \"c\": supported values: \"a\", \"b\"",
            ),
            (
                json!({"type": "array", "maxItems": 1, "items": {}}),
                json!([1, 2]),
                "spec: Too many: 2: must have at most 1 items",
            ),
            (
                json!({"type": "array", "minItems": 1, "items": {}}),
                json!([]),
                "spec: Invalid value: 0: spec in body should have at least 1 items",
            ),
            (
                json!({"type": "object", "maxProperties": 1}),
                json!({"a": 1, "b": 2}),
                "spec: Too many: 2: must have at most 1 items",
            ),
            (
                json!({"type": "object", "required": ["a"]}),
                json!({}),
                "spec.a: Required value",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
                json!(["a", "a"]),
                "spec[1]: Duplicate value: \"a\"",
            ),
            (
                json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"], "items": {"type": "object"}}),
                json!([{"type": "R"}, {"type": "R", "x": 1}]),
                "spec[1]: Duplicate value: {\"type\":\"R\"}",
            ),
            (
                json!({"not": {"type": "string"}}),
                json!("x"),
                "spec: Invalid value: \"\": \"spec\" must not validate the schema (not)",
            ),
            (
                json!({"type": "object", "additionalProperties": {"type": "string"}}),
                json!({"k": 1}),
                "spec.k: Invalid value: \"integer\": spec.k in body must be of type string: \"integer\"",
            ),
        ] {
            assert_eq!(texts(&schema, &value, None), [expected], "{schema}");
        }
    }

    #[test]
    fn branches_report_themselves_and_the_nearest_miss() {
        let schema = json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert_eq!(
            texts(&schema, &json!({}), None),
            [
                "spec: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found none valid",
                "spec.a: Required value"
            ]
        );
        assert_eq!(
            texts(&schema, &json!({"a": 1, "b": 2}), None),
            [
                "spec: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives"
            ]
        );
        assert!(texts(&schema, &json!({"a": 1}), None).is_empty());
        let any = json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        assert!(texts(&any, &json!({"a": 1, "b": 2}), None).is_empty());
        assert_eq!(texts(&any, &json!({}), None).len(), 2);
    }

    #[test]
    fn accepted_values_pass() {
        for (schema, value) in [
            (json!({"type": "integer"}), json!(2.0)),
            (json!({"type": "string", "nullable": true}), json!(null)),
            (
                json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "^[0-9]+$"}),
                json!(5),
            ),
            (
                json!({"type": "array", "items": {"type": "string"}, "pattern": "^a$", "maxLength": 1}),
                json!(["long", "b"]),
            ),
        ] {
            assert_eq!(texts(&schema, &value, None), Vec::<String>::new(), "{schema}");
        }
    }

    #[test]
    fn values_that_did_not_change_are_not_judged_again() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", "pattern": "^x$"},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items":
                {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string", "pattern": "^x$"}}}},
        }});
        let old = json!({"a": "bad", "list": [{"k": "1", "v": "bad"}]});
        let new = json!({"a": "bad", "list": [{"k": "0", "v": "x"}, {"k": "1", "v": "bad"}], "more": 1});
        assert_eq!(texts(&schema, &new, Some(&old)), Vec::<String>::new());
        assert_eq!(texts(&schema, &new, None).len(), 2);
    }
}
