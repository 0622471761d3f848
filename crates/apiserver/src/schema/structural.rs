//! A structural schema, parsed once per CRD: the tree that pruning, defaulting, validation and apply walk.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_error::{FieldError, child};
use super::pattern::Pattern;

/// How deep schemas may nest; deeper ones are refused instead of being walked.
const DEPTH_MAX: usize = 64;

/// A JSON type by its schema name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JsonType {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `boolean`
    Boolean,
    /// `integer`
    Integer,
    /// `number`
    Number,
}

impl JsonType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            _ => return None,
        })
    }

    /// The name in schemas and messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
        }
    }
}

/// `x-kubernetes-list-type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ListType {
    /// One owner, replaced as a whole.
    #[default]
    Atomic,
    /// Scalars without duplicates.
    Set,
    /// Objects named by the map keys.
    Map,
}

/// Lower and upper bounds of a count, both inclusive.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CountBounds {
    pub(crate) min: Option<u64>,
    pub(crate) max: Option<u64>,
}

/// Bounds of a number.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberBounds {
    pub(crate) minimum: Option<serde_json::Number>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) maximum: Option<serde_json::Number>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) multiple_of: Option<f64>,
}

/// One node of a structural schema.
#[derive(Debug, Default)]
pub(crate) struct SchemaNode {
    pub(crate) json_type: Option<JsonType>,
    pub(crate) nullable: bool,
    pub(crate) int_or_string: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded_resource: bool,
    pub(crate) properties: BTreeMap<String, SchemaNode>,
    pub(crate) required: Vec<String>,
    pub(crate) additional: Option<Box<SchemaNode>>,
    /// `additionalProperties: true`
    pub(crate) additional_free: bool,
    pub(crate) items: Option<Box<SchemaNode>>,
    pub(crate) default: Option<Value>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) format: Option<String>,
    pub(crate) number: NumberBounds,
    pub(crate) length: CountBounds,
    pub(crate) items_count: CountBounds,
    pub(crate) properties_count: CountBounds,
    pub(crate) unique_items: bool,
    pub(crate) all_of: Vec<SchemaNode>,
    pub(crate) any_of: Vec<SchemaNode>,
    pub(crate) one_of: Vec<SchemaNode>,
    pub(crate) not: Option<Box<SchemaNode>>,
    pub(crate) list_type: ListType,
    pub(crate) list_map_keys: Vec<String>,
    /// `x-kubernetes-map-type: atomic`
    pub(crate) map_atomic: bool,
}

impl SchemaNode {
    /// Parses a schema. Errors carry the path of the keyword below `path`.
    pub(crate) fn parse(schema: &Value, path: &str) -> Result<Self, Vec<FieldError>> {
        let mut parser = Parser { errors: Vec::new() };
        let node = parser.node(schema, path, 0);
        if parser.errors.is_empty() {
            Ok(node)
        } else {
            Err(parser.errors)
        }
    }

    /// Whether an unknown field of an object of this schema survives.
    pub(crate) fn keeps_unknown(&self) -> bool {
        self.preserve_unknown || self.additional_free
    }

    /// The schema of a field: its property, else that of the additional properties.
    pub(crate) fn field(&self, name: &str) -> Option<&SchemaNode> {
        self.properties.get(name).or(self.additional.as_deref())
    }
}

struct Parser {
    errors: Vec<FieldError>,
}

impl Parser {
    fn node(&mut self, schema: &Value, path: &str, depth: usize) -> SchemaNode {
        let Some(map) = schema.as_object() else {
            self.errors
                .push(FieldError::invalid(path, schema, "a schema must be an object"));
            return SchemaNode::default();
        };
        if depth > DEPTH_MAX {
            let message = format!("schemas may nest at most {DEPTH_MAX} levels");
            self.errors
                .push(FieldError::new(super::ErrorKind::Forbidden, path, None, message));
            return SchemaNode::default();
        }
        let flag = |key: &str| map.get(key).and_then(Value::as_bool).unwrap_or(false);
        let mut node = SchemaNode {
            json_type: self.json_type(map, path),
            nullable: flag("nullable"),
            int_or_string: flag("x-kubernetes-int-or-string"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            required: strings(map.get("required")),
            default: map.get("default").cloned(),
            enumeration: map.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            pattern: self.pattern(map, path),
            format: map.get("format").and_then(Value::as_str).map(str::to_owned),
            number: number_bounds(map),
            length: count_bounds(map, "minLength", "maxLength"),
            items_count: count_bounds(map, "minItems", "maxItems"),
            properties_count: count_bounds(map, "minProperties", "maxProperties"),
            unique_items: flag("uniqueItems"),
            list_type: self.list_type(map, path),
            list_map_keys: strings(map.get("x-kubernetes-list-map-keys")),
            map_atomic: map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
            ..SchemaNode::default()
        };
        self.children(&mut node, map, path, depth);
        node
    }

    fn children(&mut self, node: &mut SchemaNode, map: &Map<String, Value>, path: &str, depth: usize) {
        if let Some(properties) = map.get("properties").and_then(Value::as_object) {
            for (name, schema) in properties {
                let at = format!("{path}.properties[{name}]");
                let parsed = self.node(schema, &at, depth + 1);
                node.properties.insert(name.clone(), parsed);
            }
        }
        match map.get("additionalProperties") {
            Some(Value::Bool(free)) => node.additional_free = *free,
            Some(schema) => {
                let parsed = self.node(schema, &child(path, "additionalProperties"), depth + 1);
                node.additional = Some(Box::new(parsed));
            }
            None => {}
        }
        if let Some(items) = map.get("items") {
            node.items = Some(Box::new(self.node(items, &child(path, "items"), depth + 1)));
        }
        if let Some(not) = map.get("not") {
            node.not = Some(Box::new(self.node(not, &child(path, "not"), depth + 1)));
        }
        node.all_of = self.branches(map, "allOf", path, depth);
        node.any_of = self.branches(map, "anyOf", path, depth);
        node.one_of = self.branches(map, "oneOf", path, depth);
    }

    fn branches(&mut self, map: &Map<String, Value>, key: &str, path: &str, depth: usize) -> Vec<SchemaNode> {
        let list = map
            .get(key)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default();
        list.iter()
            .enumerate()
            .map(|(i, s)| self.node(s, &format!("{path}.{key}[{i}]"), depth + 1))
            .collect()
    }

    fn json_type(&mut self, map: &Map<String, Value>, path: &str) -> Option<JsonType> {
        let named = map.get("type")?;
        let parsed = named.as_str().and_then(JsonType::parse);
        if parsed.is_none() {
            let supported = ["array", "boolean", "integer", "number", "object", "string"].map(Value::from);
            self.errors
                .push(FieldError::not_supported(&child(path, "type"), named, &supported));
        }
        parsed
    }

    fn pattern(&mut self, map: &Map<String, Value>, path: &str) -> Option<Pattern> {
        let source = map.get("pattern")?;
        match Pattern::compile(source.as_str().unwrap_or_default()) {
            Ok(pattern) => Some(pattern),
            Err(reason) => {
                let message = format!("must be a valid regular expression, but isn't: {reason}");
                self.errors
                    .push(FieldError::invalid(&child(path, "pattern"), source, message));
                None
            }
        }
    }

    fn list_type(&mut self, map: &Map<String, Value>, path: &str) -> ListType {
        match map.get("x-kubernetes-list-type") {
            None => ListType::Atomic,
            Some(value) => match value.as_str() {
                Some("atomic") => ListType::Atomic,
                Some("set") => ListType::Set,
                Some("map") => ListType::Map,
                _ => {
                    let supported = ["atomic", "map", "set"].map(Value::from);
                    self.errors.push(FieldError::not_supported(
                        &child(path, "x-kubernetes-list-type"),
                        value,
                        &supported,
                    ));
                    ListType::Atomic
                }
            },
        }
    }
}

fn strings(value: Option<&Value>) -> Vec<String> {
    let list = value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn count_bounds(map: &Map<String, Value>, min: &str, max: &str) -> CountBounds {
    CountBounds {
        min: map.get(min).and_then(Value::as_u64),
        max: map.get(max).and_then(Value::as_u64),
    }
}

fn number_bounds(map: &Map<String, Value>) -> NumberBounds {
    NumberBounds {
        minimum: map.get("minimum").and_then(Value::as_number).cloned(),
        exclusive_minimum: map.get("exclusiveMinimum").and_then(Value::as_bool).unwrap_or(false),
        maximum: map.get("maximum").and_then(Value::as_number).cloned(),
        exclusive_maximum: map.get("exclusiveMaximum").and_then(Value::as_bool).unwrap_or(false),
        multiple_of: map.get("multipleOf").and_then(Value::as_f64),
    }
}
