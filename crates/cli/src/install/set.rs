//! The argument of `--set` as helm writes it: `a.b=1,list[0].name=x,list={a,b}`; `\` takes away the meaning of `.`, `,`, `=` and brackets.

use serde_json::{Map, Value};

/// Most items that an index may create: a mistyped index must not fill the memory.
const ITEMS_MAX: usize = 1024;

/// The values that the argument sets. Lists that it sets by index start as they are in `current`.
pub(super) fn parse_set(text: &str, current: &Value) -> Result<Value, String> {
    let mut overlay = Value::Object(Map::new());
    for part in split(text, ',') {
        if part.is_empty() {
            continue;
        }
        let mut sides = split(part, '=').into_iter();
        let key = sides.next().unwrap_or_default();
        let Some(value) = part.get(key.len() + 1..) else {
            return Err(format!("{part} has no value; write key=value"));
        };
        place(&mut overlay, &path(key)?, read_value(value), Some(current))?;
    }
    Ok(overlay)
}

/// A step into a value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Step {
    Field(String),
    Index(usize),
}

/// Splits at a separator outside braces that no backslash precedes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut depth, mut escaped) = (0, 0_usize, false);
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if letter == separator && depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + letter.len_utf8();
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    parts
}

fn path(key: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    for part in split(key, '.') {
        let mut pieces = split(part, '[').into_iter();
        let name = unescape(pieces.next().unwrap_or_default());
        if name.is_empty() {
            return Err(format!("{key} has an empty name"));
        }
        steps.push(Step::Field(name));
        for index in pieces {
            let index = index.strip_suffix(']').and_then(|index| index.parse().ok());
            match index {
                Some(index) if index < ITEMS_MAX => steps.push(Step::Index(index)),
                _ => return Err(format!("{key} has an index that is not a number below {ITEMS_MAX}")),
            }
        }
    }
    Ok(steps)
}

fn place(target: &mut Value, steps: &[Step], value: Value, current: Option<&Value>) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        *target = value;
        return Ok(());
    };
    match step {
        Step::Field(name) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Value::Object(fields) = target else { return Ok(()) };
            let current = current.and_then(|current| current.get(name));
            place(fields.entry(name).or_insert(Value::Null), rest, value, current)
        }
        Step::Index(index) => {
            if !target.is_array() {
                *target = current
                    .filter(|current| current.is_array())
                    .cloned()
                    .unwrap_or_default();
            }
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            let Value::Array(items) = target else { return Ok(()) };
            while items.len() <= *index {
                items.push(Value::Null);
            }
            match items.get_mut(*index) {
                Some(item) => place(item, rest, value, None),
                None => Err(format!("index {index} is out of range")),
            }
        }
    }
}

fn read_value(text: &str) -> Value {
    if let Some(items) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        let items = split(items, ',').into_iter().filter(|item| !item.is_empty());
        return Value::Array(items.map(read_value).collect());
    }
    match text {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        "0" => Value::from(0),
        _ if text.starts_with('0') => Value::String(unescape(text)),
        _ => match text.parse::<i64>() {
            Ok(number) => Value::from(number),
            Err(_) => Value::String(unescape(text)),
        },
    }
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_have_the_syntax_of_helm() {
        let current = json!({"list": [{"key": "a", "value": 1}, "second"]});
        for (text, wanted) in [
            ("a=1", json!({"a": 1})),
            ("a.b=x,a.c=true", json!({"a": {"b": "x", "c": true}})),
            ("a={x,2}", json!({"a": ["x", 2]})),
            ("a={}", json!({"a": []})),
            ("a=null", json!({"a": null})),
            ("a=", json!({"a": ""})),
            ("a=007,b=0,c=0.5", json!({"a": "007", "b": 0, "c": "0.5"})),
            ("a=x=y", json!({"a": "x=y"})),
            (r"a.kubernetes\.io/os=x\,y", json!({"a": {"kubernetes.io/os": "x,y"}})),
            ("list[0].value=2", json!({"list": [{"key": "a", "value": 2}, "second"]})),
            ("new[1]=x", json!({"new": [null, "x"]})),
        ] {
            assert_eq!(parse_set(text, &current), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn bad_arguments_are_refused() {
        let refused = |text: &str| parse_set(text, &Value::Null).expect_err("bad");
        assert_eq!(refused("replicas"), "replicas has no value; write key=value");
        assert_eq!(refused("a..b=1"), "a..b has an empty name");
        assert_eq!(refused("a[x]=1"), "a[x] has an index that is not a number below 1024");
        assert_eq!(
            refused("a[9999999]=1"),
            "a[9999999] has an index that is not a number below 1024"
        );
    }
}
