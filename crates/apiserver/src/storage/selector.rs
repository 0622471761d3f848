//! Label selectors (equality and set based) and field selectors, parsed from their query strings.

use std::sync::Arc;

use super::{FieldPath, Stored};

/// A conjunction of conditions on labels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LabelSelector(Vec<LabelCondition>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelCondition {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
    Greater(String, i64),
    Less(String, i64),
}

impl LabelSelector {
    /// Reads `a=b,c!=d,e in (f,g),h notin (i),j,!k`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        split_outside_parentheses(text)
            .into_iter()
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(LabelCondition::parse)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// The selector of an object's spec: `matchLabels` and `matchExpressions`. Nothing matches a missing selector's
    /// caller: it decides what absence means.
    pub(crate) fn from_spec(selector: &serde_json::Value) -> Self {
        let mut conditions = Vec::new();
        for (key, value) in crate::json::at(selector, &["matchLabels"])
            .as_object()
            .into_iter()
            .flatten()
        {
            conditions.push(LabelCondition::In(
                key.clone(),
                vec![value.as_str().unwrap_or_default().to_owned()],
            ));
        }
        for expression in crate::json::items(selector, &["matchExpressions"]) {
            let key = crate::json::text(expression, &["key"]).unwrap_or_default().to_owned();
            let values = crate::json::items(expression, &["values"]);
            let values = values.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect();
            conditions.push(match crate::json::text(expression, &["operator"]) {
                Some("NotIn") => LabelCondition::NotIn(key, values),
                Some("Exists") => LabelCondition::Exists(key),
                Some("DoesNotExist") => LabelCondition::Absent(key),
                _ => LabelCondition::In(key, values),
            });
        }
        Self(conditions)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.0.iter().all(|c| c.matches(object))
    }
}

/// The query form, as the scale subresource reports it.
impl std::fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, condition) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            match condition {
                LabelCondition::In(k, v) if v.len() == 1 => write!(f, "{comma}{k}={}", v.concat())?,
                LabelCondition::In(k, v) => write!(f, "{comma}{k} in ({})", v.join(","))?,
                LabelCondition::NotIn(k, v) => write!(f, "{comma}{k} notin ({})", v.join(","))?,
                LabelCondition::Exists(k) => write!(f, "{comma}{k}")?,
                LabelCondition::Absent(k) => write!(f, "{comma}!{k}")?,
                LabelCondition::Greater(k, n) => write!(f, "{comma}{k}>{n}")?,
                LabelCondition::Less(k, n) => write!(f, "{comma}{k}<{n}")?,
            }
        }
        Ok(())
    }
}

impl LabelCondition {
    fn parse(part: &str) -> Result<Self, String> {
        let key_of = |k: &str| {
            let key = k.trim();
            let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
            if key.is_empty() || !key.chars().all(legal) {
                return Err(format!(
                    "unable to parse requirement: invalid label key {key:?} in {part:?}"
                ));
            }
            Ok(key.to_owned())
        };
        let value_of = |value: &str| {
            let value = value.trim();
            match value.find(['=', '!', '<', '>', '(', ')']) {
                Some(at) => Err(format!(
                    "unable to parse requirement: found '{}', expected: identifier",
                    value.get(at..=at).unwrap_or_default()
                )),
                None => Ok(value.to_owned()),
            }
        };
        if let Some(key) = part.strip_prefix('!') {
            return Ok(Self::Absent(key_of(key)?));
        }
        if let Some((head, list)) = part.split_once('(') {
            let Some(list) = list.trim_end().strip_suffix(')') else {
                return Err(format!("unable to parse requirement: found no closing ')' in {part:?}"));
            };
            let values = list.split(',').map(value_of).collect::<Result<_, _>>()?;
            return match head.split_whitespace().collect::<Vec<_>>().as_slice() {
                [key, "in"] => Ok(Self::In(key_of(key)?, values)),
                [key, "notin"] => Ok(Self::NotIn(key_of(key)?, values)),
                _ => Err(format!(
                    "unable to parse requirement: found {head:?}, expected: <key> in|notin"
                )),
            };
        }
        if let Some((key, value)) = part.split_once("!=") {
            return Ok(Self::NotIn(key_of(key)?, vec![value_of(value)?]));
        }
        if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            return Ok(Self::In(key_of(key)?, vec![value_of(value)?]));
        }
        let number = |v: &str| {
            let n = v
                .trim()
                .parse()
                .map_err(|_| format!("values: Invalid value: {:?}: must be an integer", v.trim()));
            n as Result<i64, String>
        };
        if let Some((key, value)) = part.split_once('>') {
            return Ok(Self::Greater(key_of(key)?, number(value)?));
        }
        if let Some((key, value)) = part.split_once('<') {
            return Ok(Self::Less(key_of(key)?, number(value)?));
        }
        Ok(Self::Exists(key_of(part)?))
    }

    fn matches(&self, object: &Stored) -> bool {
        let number = |key: &str| object.label(key).and_then(|v| v.parse::<i64>().ok());
        match self {
            Self::In(key, values) => object.label(key).is_some_and(|v| values.iter().any(|x| x == v)),
            Self::NotIn(key, values) => object.label(key).is_none_or(|v| !values.iter().any(|x| x == v)),
            Self::Exists(key) => object.label(key).is_some(),
            Self::Absent(key) => object.label(key).is_none(),
            Self::Greater(key, bound) => number(key).is_some_and(|n| n > *bound),
            Self::Less(key, bound) => number(key).is_some_and(|n| n < *bound),
        }
    }
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_u32;
    text.split(|c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .collect()
}

/// A conjunction of equalities on fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSelector(Vec<FieldCondition>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct FieldCondition {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Name,
    Namespace,
    /// Index into the table's selectable fields.
    Indexed(usize),
}

impl FieldSelector {
    /// Reads `a=b,c!=d`; `fields` are those the resource supports.
    pub(crate) fn parse(text: &str, fields: &[FieldPath]) -> Result<Self, String> {
        let mut conditions = Vec::new();
        for part in split_unescaped(text).iter().filter(|p| !p.is_empty()) {
            let (label, value, equal) = if let Some((l, v)) = part.split_once("!=") {
                (l, v, false)
            } else if let Some((l, v)) = part.split_once("==").or_else(|| part.split_once('=')) {
                (l, v, true)
            } else {
                return Err(format!("invalid selector: '{text}'; can't understand '{part}'"));
            };
            let field = match label {
                "metadata.name" => Field::Name,
                "metadata.namespace" => Field::Namespace,
                _ => match fields.iter().position(|f| f.label == label) {
                    Some(i) => Field::Indexed(i),
                    None => return Err(format!("field label not supported: {label}")),
                },
            };
            conditions.push(FieldCondition {
                field,
                value: unescape(value),
                equal,
            });
        }
        Ok(Self(conditions))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn matches(&self, object: &Stored) -> bool {
        self.0.iter().all(|c| {
            let value = match c.field {
                Field::Name => object.name(),
                Field::Namespace => object.namespace(),
                Field::Indexed(i) => object.fields.get(i).map_or("", |v| v),
            };
            (value == c.value) == c.equal
        })
    }
}

fn split_unescaped(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|c| {
        let cut = c == ',' && !escaped;
        escaped = c == '\\' && !escaped;
        cut
    })
    .collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// Which objects a list or watch is about.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    pub(crate) namespace: Option<Arc<str>>,
    /// A single object: the request named it.
    pub(crate) name: Option<String>,
    pub(crate) labels: LabelSelector,
    pub(crate) fields: FieldSelector,
}

impl Filter {
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        self.namespace.as_deref().is_none_or(|ns| object.namespace() == ns)
            && self.name.as_deref().is_none_or(|n| object.name() == n)
            && self.labels.matches(object)
            && self.fields.matches(object)
    }

    /// Whether it picks by more than the namespace.
    pub(crate) fn is_selective(&self) -> bool {
        self.name.is_some() || !self.labels.is_empty() || !self.fields.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Change;
    use super::*;

    fn object() -> Stored {
        let object = json!({
            "metadata": {"name": "x", "namespace": "ns", "labels": {"app": "web", "n": "5", "empty": ""}},
            "spec": {"nodeName": "node-1"},
        });
        Stored::new("ns/x", 1, Change::Added, &object, &fields())
    }

    fn fields() -> Vec<FieldPath> {
        vec![
            FieldPath::new("spec.nodeName", "spec.nodeName"),
            FieldPath::new("status.phase", "status.phase"),
        ]
    }

    #[test]
    fn label_selectors() {
        for (selector, expected) in [
            ("", true),
            ("app=web", true),
            ("app==web", true),
            ("app = api", false),
            ("app!=api", true),
            ("other!=api", true),
            ("app in (web, api)", true),
            ("app in (api)", false),
            ("app notin (api,db),n", true),
            ("other notin (api)", true),
            ("other in (api)", false),
            ("empty=", true),
            ("!other", true),
            ("!app", false),
            ("n>4", true),
            ("n<5", false),
            ("app>1", false),
        ] {
            let parsed = LabelSelector::parse(selector).unwrap();
            assert_eq!(parsed.matches(&object()), expected, "{selector}");
        }
        for bad in ["a in b", "a in (b", "=x", "a b", "n>x", "a like (b)"] {
            assert!(LabelSelector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn field_selectors() {
        for (selector, expected) in [
            ("spec.nodeName=node-1", true),
            ("spec.nodeName!=node-1", false),
            ("status.phase=", true),
            ("metadata.name=x,metadata.namespace==ns", true),
            ("metadata.name=y", false),
        ] {
            let parsed = FieldSelector::parse(selector, &fields()).unwrap();
            assert_eq!(parsed.matches(&object()), expected, "{selector}");
        }
        assert_eq!(
            FieldSelector::parse("spec.color=red", &fields()).unwrap_err(),
            "field label not supported: spec.color"
        );
    }

    #[test]
    fn a_spec_selector_prints_as_a_query() {
        let spec = json!({"matchLabels": {"a": "b"}, "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["d", "e"]}, {"key": "f", "operator": "Exists"}]});
        assert_eq!(LabelSelector::from_spec(&spec).to_string(), "a=b,c notin (d,e),f");
    }
}
