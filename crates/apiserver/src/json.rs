//! Reading and writing nested JSON without panics. An absent path reads as null; a write creates the objects of its path.

use kerf_units::quantity::Quantity;
use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// The value at `path`, null when any part is missing.
pub(crate) fn at<'a>(value: &'a Value, path: &[&str]) -> &'a Value {
    path.iter().fold(value, |v, key| v.get(key).unwrap_or(&NULL))
}

/// The string at `path`, when there is one and it is not empty.
pub(crate) fn text<'a>(value: &'a Value, path: &[&str]) -> Option<&'a str> {
    at(value, path).as_str().filter(|s| !s.is_empty())
}

/// The array at `path`, empty when missing.
pub(crate) fn items<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).as_array().map_or(&[], Vec::as_slice)
}

/// The integer at `path`.
pub(crate) fn int(value: &Value, path: &[&str]) -> Option<i64> {
    at(value, path).as_i64()
}

/// A quantity, which may be text or a number. `None` if the value is neither or cannot be read.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// The object at `path`, made (or put in place of a non-object) when missing.
pub(crate) fn object_mut<'a>(value: &'a mut Value, path: &[&str]) -> &'a mut Map<String, Value> {
    let mut here = value;
    for key in path {
        here = as_object(here).entry(*key).or_insert_with(|| Value::Object(Map::new()));
    }
    as_object(here)
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("invariant: the value was made an object above"),
    }
}

/// The array at `path` when it exists and is one.
pub(crate) fn array_mut<'a>(value: &'a mut Value, path: &[&str]) -> Option<&'a mut Vec<Value>> {
    path.iter().try_fold(value, |v, key| v.get_mut(key))?.as_array_mut()
}

/// Writes `new` at `path`.
pub(crate) fn set(value: &mut Value, path: &[&str], new: Value) {
    if let Some((last, parents)) = path.split_last() {
        object_mut(value, parents).insert((*last).to_owned(), new);
    }
}

/// Removes what is at `path`.
pub(crate) fn take(value: &mut Value, path: &[&str]) -> Option<Value> {
    let (last, parents) = path.split_last()?;
    parents
        .iter()
        .try_fold(value, |v, key| v.get_mut(key))?
        .as_object_mut()?
        .remove(*last)
}

/// Copies what `from` has at `path` into `to`, removing it there when `from` has nothing.
pub(crate) fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    match at(from, path) {
        Value::Null => {
            take(to, path);
        }
        v if at(to, path) == v => {}
        v => set(to, path, v.clone()),
    }
}

/// Sets `key` of `map` unless it holds something already.
pub(crate) fn default(map: &mut Map<String, Value>, key: &str, value: impl Into<Value>) {
    match map.get_mut(key) {
        Some(v) if !v.is_null() => {}
        Some(v) => *v = value.into(),
        None => {
            map.insert(key.to_owned(), value.into());
        }
    }
}
