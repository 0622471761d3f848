//! CEL rules of a schema (`x-kubernetes-validations`), compiled once and evaluated node by node.
//!
//! The engine is kube-cel. Walking is ours, because the real server finds the old value of a list entry by its map keys
//! (the engine goes by position), skips rules on values that did not change, and words errors its own way.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube_cel::cel::ExecutionError;
use kube_cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::{Map, Value};

use super::field_error::{ErrorKind, FieldError, child, index};
use super::structural::SchemaNode;
use super::validate::correlated;

const RULES: &str = "x-kubernetes-validations";

/// The rules of one schema node and of what lies below; nodes without rules do not appear.
#[derive(Debug, Default)]
pub(super) struct RuleNode {
    here: Option<NodeRules>,
    properties: BTreeMap<String, RuleNode>,
    items: Option<Box<RuleNode>>,
    additional: Option<Box<RuleNode>>,
    /// Whether a rule here or below has to run where nothing changed.
    has_transitions: bool,
}

#[derive(Debug)]
struct NodeRules {
    all: CompiledSchema,
    /// The rules that look at `oldSelf` and may fail even where nothing changed.
    transition: Option<CompiledSchema>,
    /// Whether any rule looks at `oldSelf`.
    looks_back: bool,
    /// What to print for a rule that has no verdict, by the rule's text.
    messages: BTreeMap<String, String>,
    type_name: String,
    accepted: Accepted,
}

/// Values the rules of a node have accepted, as JSON. A rule is a function of its value alone (transition rules are left
/// out), the same few label keys and requirements come again and again, and the engine compiles the regular expressions of a
/// rule at every call.
#[derive(Debug, Default)]
struct Accepted(Mutex<Texts>);

#[derive(Debug, Default)]
struct Texts {
    known: BTreeSet<String>,
    bytes: usize,
}

impl Accepted {
    /// Enough for every label key and value of a large cluster; beyond it rules are simply run.
    const BYTES_MAX: usize = 256 * 1024;

    fn texts(&self) -> MutexGuard<'_, Texts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contains(&self, text: &str) -> bool {
        self.texts().known.contains(text)
    }

    fn insert(&self, text: String) {
        let mut texts = self.texts();
        let bytes = texts.bytes + text.len();
        if bytes <= Self::BYTES_MAX && texts.known.insert(text) {
            texts.bytes = bytes;
        }
    }
}

impl RuleNode {
    /// Compiles every rule of a schema. `None` when it has none.
    pub(super) fn compile(schema: &Value, path: &str) -> Result<Option<Self>, Vec<FieldError>> {
        let mut errors = Vec::new();
        let node = compile_node(schema, path, &mut errors);
        if errors.is_empty() { Ok(node) } else { Err(errors) }
    }
}

fn compile_node(schema: &Value, path: &str, errors: &mut Vec<FieldError>) -> Option<RuleNode> {
    let map = schema.as_object()?;
    let mut node = RuleNode {
        here: compile_here(map, path, errors),
        ..RuleNode::default()
    };
    if let Some(properties) = map.get("properties").and_then(Value::as_object) {
        for (name, inner) in properties {
            let compiled = compile_node(inner, &format!("{path}.properties[{name}]"), errors);
            node.properties.extend(compiled.map(|c| (name.clone(), c)));
        }
    }
    let mut boxed = |key: &str| {
        map.get(key)
            .and_then(|s| compile_node(s, &child(path, key), errors))
            .map(Box::new)
    };
    node.items = boxed("items");
    node.additional = boxed("additionalProperties");
    let below = node
        .properties
        .values()
        .chain(node.items.as_deref())
        .chain(node.additional.as_deref());
    let below: Vec<bool> = below.map(|n| n.has_transitions).collect();
    node.has_transitions = below.contains(&true) || node.here.as_ref().is_some_and(|h| h.transition.is_some());
    if node.here.is_none() && below.is_empty() {
        None
    } else {
        Some(node)
    }
}

fn compile_here(map: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) -> Option<NodeRules> {
    let rules = map.get(RULES)?.as_array().filter(|r| !r.is_empty())?;
    let mut bare = stripped(map);
    let mut compile = |rules: Vec<Value>| {
        bare.insert(RULES.to_owned(), Value::Array(rules));
        compile_schema(&Value::Object(bare.clone()))
    };
    let all = compile(rules.clone());
    let (mut transition, mut looks_back) = (Vec::new(), false);
    for (i, (rule, compiled)) in rules.iter().zip(&all.validations).enumerate() {
        match compiled {
            Ok(compiled) if compiled.is_transition_rule => {
                looks_back = true;
                // True of every unchanged value, and by far the commonest rule.
                if compiled.rule.rule.trim() != "self == oldSelf" {
                    transition.push(rule.clone());
                }
            }
            Ok(_) => {}
            Err(reason) => {
                let at = format!("{path}.{RULES}[{i}].rule");
                let text = rule.get("rule").cloned().unwrap_or_default();
                errors.push(FieldError::invalid(&at, &text, format!("compilation failed: {reason}")));
            }
        }
    }
    let transition = if transition.is_empty() {
        None
    } else {
        Some(compile(transition))
    };
    let messages = rules
        .iter()
        .filter_map(|r| Some((r.get("rule")?.as_str()?.to_owned(), message_of(r))))
        .collect();
    let type_name = map.get("type").and_then(Value::as_str).unwrap_or("object").to_owned();
    Some(NodeRules {
        all,
        transition,
        looks_back,
        messages,
        type_name,
        accepted: Accepted::default(),
    })
}

fn message_of(rule: &Value) -> String {
    let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().trim();
    let message = text("message");
    if message.is_empty() {
        format!("failed rule: {}", text("rule"))
    } else {
        message.to_owned()
    }
}

/// The schema without rules, defaults and texts below: what the engine needs to type values, and no rule runs twice.
fn stripped(map: &Map<String, Value>) -> Map<String, Value> {
    let strip = |value: &Value| match value {
        Value::Object(inner) => Value::Object(stripped(inner)),
        other => other.clone(),
    };
    let mut out = Map::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            (RULES | "default" | "description" | "allOf" | "anyOf" | "oneOf" | "not" | "pattern" | "enum", _) => {}
            ("properties", Value::Object(properties)) => {
                let inner = properties
                    .iter()
                    .map(|(name, schema)| (name.clone(), strip(schema)))
                    .collect();
                out.insert(key.clone(), Value::Object(inner));
            }
            _ => {
                out.insert(key.clone(), strip(value));
            }
        }
    }
    out
}

/// Evaluates every rule on `value`; `old` is what stood there before an update.
pub(super) fn errors(value: &Value, old: Option<&Value>, rules: &RuleNode, schema: &SchemaNode) -> Vec<FieldError> {
    let mut out = Vec::new();
    walk(value, old, rules, schema, "", &mut out);
    out
}

fn walk(
    value: &Value,
    old: Option<&Value>,
    rules: &RuleNode,
    schema: &SchemaNode,
    path: &str,
    out: &mut Vec<FieldError>,
) {
    let unchanged = old == Some(value);
    if value.is_null() || (unchanged && !rules.has_transitions) {
        return;
    }
    if let Some(here) = &rules.here {
        here.evaluate(value, old, path, out);
    }
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let below = rules.properties.get(name).or(if schema.properties.contains_key(name) {
                    None
                } else {
                    rules.additional.as_deref()
                });
                if let (Some(below), Some(inner_schema)) = (below, schema.field(name)) {
                    let at = child(path, name);
                    walk(inner, old.and_then(|o| o.get(name)), below, inner_schema, &at, out);
                }
            }
        }
        Value::Array(items) => {
            if let (Some(below), Some(inner_schema)) = (&rules.items, schema.items.as_deref()) {
                for (i, item) in items.iter().enumerate() {
                    let before = if unchanged {
                        Some(item)
                    } else {
                        correlated(item, old, schema)
                    };
                    walk(item, before, below, inner_schema, &index(path, i), out);
                }
            }
        }
        _ => {}
    }
}

impl NodeRules {
    fn evaluate(&self, value: &Value, old: Option<&Value>, path: &str, out: &mut Vec<FieldError>) {
        let unchanged = old == Some(value);
        let compiled = match (&self.transition, unchanged) {
            (None, true) => return,
            (Some(transition), true) => transition,
            (_, false) => &self.all,
        };
        let alone = (!self.looks_back).then(|| value.to_string());
        if alone.as_deref().is_some_and(|text| self.accepted.contains(text)) {
            return;
        }
        let Err(failed) = validate_compiled(compiled, value, old) else {
            if let Some(text) = alone {
                self.accepted.insert(text);
            }
            return;
        };
        out.extend(failed.iter().map(|error| self.field_error(error, value, path)));
    }

    fn field_error(&self, error: &kube_cel::ValidationError, value: &Value, path: &str) -> FieldError {
        let at = format!("{path}{}", error.field_path);
        let at = at.trim_start_matches('.');
        if error.kind == kube_cel::ErrorKind::ValidationFailure {
            let shown = if value.is_object() || value.is_array() {
                None
            } else {
                Some(value.clone())
            };
            let (kind, shown) = match error.reason.as_deref() {
                Some("FieldValueForbidden") => (ErrorKind::Forbidden, None),
                Some("FieldValueRequired") => (ErrorKind::Required, None),
                Some("FieldValueDuplicate") => (ErrorKind::Duplicate, shown),
                _ => (ErrorKind::Invalid, shown),
            };
            return FieldError::new(kind, at, shown, error.message.trim());
        }
        let message = self
            .messages
            .get(&error.rule)
            .map_or(error.rule.as_str(), String::as_str);
        let reason = match error.source().and_then(|s| s.downcast_ref::<ExecutionError>()) {
            Some(ExecutionError::MissingArgumentOrTarget) => {
                let key = absent_key(&error.rule, value).unwrap_or_default();
                format!("no such key: {key}")
            }
            Some(reason) => evaluation_text(reason),
            None => error.message.clone(),
        };
        let text = format!("{reason} evaluating rule: {message}");
        FieldError::new(ErrorKind::Invalid, at, Some(self.type_name.as_str().into()), text)
    }
}

/// The field a rule selects that `value`, or an entry of it, lacks.
///
/// When the left side of `&&` fails, the engine reports what the right side says about it, and a call on a missing field
/// only says that its argument is missing. cel-go keeps the left side's error, which names the field.
fn absent_key<'r>(rule: &'r str, value: &Value) -> Option<&'r str> {
    let objects = match value {
        Value::Array(items) => items.as_slice(),
        other => std::slice::from_ref(other),
    };
    let selected = rule.split('.').skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (name, tail) = rest.split_at(end);
        let is_field = !name.is_empty() && !tail.starts_with('(');
        is_field.then_some(name)
    });
    selected
        .into_iter()
        .find(|name| objects.iter().any(|o| o.is_object() && o.get(name).is_none()))
}

/// The text cel-go gives an evaluation error (API-139).
fn evaluation_text(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::NoSuchOverload => "no such overload".to_owned(),
        ExecutionError::FunctionError { function, .. } if matches!(function.as_str(), "int" | "uint" | "double") => {
            format!("type conversion error from 'string' to '{function}'")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let node = SchemaNode::parse(schema, "").expect("a schema");
        let rules = RuleNode::compile(schema, "")
            .expect("rules compile")
            .expect("there are rules");
        errors(value, old, &rules, &node)
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn messages_paths_and_reasons() {
        let schema = json!({"type": "object",
        "properties": {"name": {"type": "string", RULES: [{"rule": "self != ''", "message": "may not be empty"}]}},
        RULES: [
            {"rule": "self.name != 'x'"},
            {"rule": "self.name != 'y'", "message": "no y", "reason": "FieldValueForbidden", "fieldPath": ".name"},
            {"rule": "self.name != 'z'", "message": "m", "messageExpression": "'not ' + self.name"},
        ]});
        assert_eq!(
            texts(&schema, &json!({"name": ""}), None),
            ["name: Invalid value: \"\": may not be empty"]
        );
        assert_eq!(
            texts(&schema, &json!({"name": "x"}), None),
            [": Invalid value: failed rule: self.name != 'x'"]
        );
        assert_eq!(texts(&schema, &json!({"name": "y"}), None), ["name: Forbidden: no y"]);
        assert_eq!(texts(&schema, &json!({"name": "z"}), None), [": Invalid value: not z"]);
    }

    #[test]
    fn transition_rules_need_an_old_value_found_by_its_keys() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string", RULES: [{"rule": "self == oldSelf", "message": "is immutable"}]},
            "list": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"], "items": {
                "type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "string"}},
                RULES: [{"rule": "self.v == oldSelf.v", "message": "v is fixed"}]}},
        }});
        let old = json!({"a": "1", "list": [{"k": "x", "v": "1"}, {"k": "y", "v": "2"}]});
        assert!(texts(&schema, &json!({"a": "2"}), None).is_empty());
        assert_eq!(
            texts(&schema, &json!({"a": "2"}), Some(&old)),
            ["a: Invalid value: \"2\": is immutable"]
        );
        let moved = json!({"a": "1", "list": [{"k": "y", "v": "2"}, {"k": "x", "v": "9"}, {"k": "new", "v": "3"}]});
        assert_eq!(
            texts(&schema, &moved, Some(&old)),
            ["list[1]: Invalid value: v is fixed"]
        );
    }

    #[test]
    fn an_accepted_value_is_remembered_and_a_refused_one_is_not() {
        let integer = json!({"type": "integer"});
        for (items, values) in [
            (
                json!({"type": "string", RULES: [{"rule": "self.find('^a') != ''"}]}),
                json!(["ab", "ab", "b"]),
            ),
            (
                json!({"type": "object", "properties": {"a": integer}, RULES: [{"rule": "self.a < 2"}]}),
                json!([{"a": 1}, {"a": 1}, {"a": 2}]),
            ),
        ] {
            let schema = json!({"type": "array", "items": items});
            let node = SchemaNode::parse(&schema, "").expect("a schema");
            let rules = RuleNode::compile(&schema, "")
                .expect("rules compile")
                .expect("there are rules");
            for _ in 0..2 {
                assert_eq!(errors(&values, None, &rules, &node).len(), 1);
            }
        }
    }

    #[test]
    fn a_remembered_value_is_not_judged_again() {
        let schema = json!({"type": "string", RULES: [{"rule": "self == 'ok'"}]});
        let node = SchemaNode::parse(&schema, "").expect("a schema");
        let rules = RuleNode::compile(&schema, "")
            .expect("rules compile")
            .expect("there are rules");
        let accepted = &rules.here.as_ref().expect("rules of the value itself").accepted;
        let judged = |value: &str| errors(&json!(value), None, &rules, &node).len();
        assert_eq!((judged("ok"), judged("bad")), (0, 1));
        assert!(accepted.contains("\"ok\"") && !accepted.contains("\"bad\""));
        accepted.insert("\"bad\"".to_owned());
        assert_eq!(judged("bad"), 0, "nobody looked");
    }

    #[test]
    fn unchanged_values_are_left_alone() {
        let schema =
            json!({"type": "object", "properties": {"a": {"type": "string", RULES: [{"rule": "self == 'ok'"}]}}});
        let bad = json!({"a": "bad"});
        assert!(texts(&schema, &bad, Some(&bad)).is_empty());
        assert_eq!(texts(&schema, &bad, None).len(), 1);
    }

    #[test]
    fn a_rule_that_does_not_compile_is_found_at_once() {
        let schema = json!({"type": "object", RULES: [{"rule": "self.("}]});
        let errors = RuleNode::compile(&schema, "root").expect_err("nonsense");
        assert!(
            errors[0]
                .to_string()
                .starts_with("root.x-kubernetes-validations[0].rule: Invalid value: \"self.(\": compilation failed: ")
        );
    }
}
