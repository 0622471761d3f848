//! The JSON path dialect of printer columns: fields, indices, wildcards and equality filters.

use serde_json::Value;

/// A parsed path such as `.status.conditions[?(@.type=="Ready")].status`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct JsonPath(Vec<Step>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    /// Negative indices count from the end.
    Index(i64),
    Each,
    Filter {
        path: Vec<String>,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Parses a path; it starts with a dot or a bracket.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let text = text.strip_prefix('{').and_then(|t| t.strip_suffix('}')).unwrap_or(text);
        if !text.starts_with(['.', '[', '$']) {
            return Err("is not a valid jsonpath: it must start with a dot".to_owned());
        }
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            rest = if let Some(tail) = rest.strip_prefix('[') {
                let (inside, tail) = split_bracket(tail)?;
                steps.push(parse_bracket(inside)?);
                tail
            } else if let Some(tail) = rest.strip_prefix('.') {
                if tail.starts_with('[') || tail.is_empty() {
                    tail
                } else if let Some(tail) = tail.strip_prefix('*') {
                    steps.push(Step::Each);
                    tail
                } else {
                    let (name, tail) = split_name(tail);
                    if name.is_empty() {
                        return Err("is not a valid jsonpath: a field name is missing".to_owned());
                    }
                    steps.push(Step::Field(name));
                    tail
                }
            } else {
                return Err(format!("is not a valid jsonpath: unexpected {rest:?}"));
            };
        }
        Ok(Self(steps))
    }

    /// The first value the path finds.
    pub(super) fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        let mut found = vec![root];
        for step in &self.0 {
            found = found.into_iter().flat_map(|value| step.apply(value)).collect();
        }
        found.into_iter().next()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Index(at) => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let at = if *at < 0 { at + items.len() as i64 } else { *at };
                usize::try_from(at)
                    .ok()
                    .and_then(|at| items.get(at))
                    .into_iter()
                    .collect()
            }
            Self::Each => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(map) => map.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter {
                path,
                equal,
                value: wanted,
            } => {
                let items = value.as_array().map(Vec::as_slice).unwrap_or_default();
                let fits = |item: &&Value| {
                    let found = path.iter().try_fold(*item, |v, key| v.get(key));
                    found.is_some_and(|v| (v == wanted) == *equal)
                };
                items.iter().filter(fits).collect()
            }
        }
    }
}

/// A field name up to the next dot or bracket; a backslash takes the next character as it is.
fn split_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return (name, text.get(at..).unwrap_or_default()),
            other => name.push(other),
        }
    }
    (name, "")
}

/// The text inside a bracket and what follows it; brackets inside quotes do not count.
fn split_bracket(text: &str) -> Result<(&str, &str), String> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            (None, ']') => {
                return Ok((
                    text.get(..at).unwrap_or_default(),
                    text.get(at + 1..).unwrap_or_default(),
                ));
            }
            _ => {}
        }
    }
    Err("is not a valid jsonpath: unterminated array".to_owned())
}

fn parse_bracket(inside: &str) -> Result<Step, String> {
    let inside = inside.trim();
    if inside == "*" {
        return Ok(Step::Each);
    }
    if let Some(name) = unquote(inside) {
        return Ok(Step::Field(name.to_owned()));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|f| f.strip_suffix(')')) {
        return parse_filter(filter);
    }
    inside
        .parse()
        .map(Step::Index)
        .map_err(|_| format!("is not a valid jsonpath: invalid array index {inside}"))
}

fn parse_filter(filter: &str) -> Result<Step, String> {
    let (left, right, equal) = match (filter.split_once("=="), filter.split_once("!=")) {
        (Some((left, right)), _) => (left, right, true),
        (None, Some((left, right))) => (left, right, false),
        (None, None) => return Err(format!("is not a valid jsonpath: unsupported filter {filter}")),
    };
    let Some(mut rest) = left.trim().strip_prefix('@') else {
        return Err("is not a valid jsonpath: a filter starts with @".to_owned());
    };
    let mut path = Vec::new();
    while let Some(tail) = rest.strip_prefix('.') {
        let (name, tail) = split_name(tail);
        path.push(name);
        rest = tail;
    }
    let right = right.trim();
    let value = match unquote(right) {
        Some(text) => Value::from(text),
        None => serde_json::from_str(right)
            .map_err(|_| format!("is not a valid jsonpath: {right} is no value to compare with"))?,
    };
    Ok(Step::Filter { path, equal, value })
}

fn unquote(text: &str) -> Option<&str> {
    let inner = |quote: char| text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote));
    inner('"').or_else(|| inner('\''))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_their_values() {
        let object = json!({
            "spec": {"a": 1, "list": [{"n": "x"}, {"n": "y"}]},
            "metadata": {"labels": {"karpenter.sh/nodepool": "p"}},
            "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True"}]},
        });
        for (path, expected) in [
            (".spec.a", Some(json!(1))),
            (".spec.list[1].n", Some(json!("y"))),
            (".spec.list[-1].n", Some(json!("y"))),
            (".spec.list[*].n", Some(json!("x"))),
            (".metadata.labels.karpenter\\.sh/nodepool", Some(json!("p"))),
            (".metadata.labels['karpenter.sh/nodepool']", Some(json!("p"))),
            (".status.conditions[?(@.type==\"Ready\")].status", Some(json!("True"))),
            (".status.conditions[?(@.type=='Ready')].status", Some(json!("True"))),
            (".status.conditions[?(@.type!=\"Ready\")].status", Some(json!("False"))),
            (".status.conditions[?(@.type==\"None\")].status", None),
            (".spec.list[7].n", None),
            (".nowhere.at.all", None),
        ] {
            assert_eq!(
                JsonPath::parse(path).expect(path).first(&object).cloned(),
                expected,
                "{path}"
            );
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for path in ["spec", ".a[", ".a[x]", ".a[?(@.x>1)]", "..a", ""] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
