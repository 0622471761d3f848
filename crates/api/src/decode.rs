//! Turning JSON into typed objects, with errors that name the object and the field.

use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// An object that does not have the shape of its kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind}{} cannot be read: field {field}: {problem}; correct the object", after_kind(name.as_deref()))]
pub struct DecodeError {
    /// Kind wanted.
    pub kind: String,
    /// `<namespace>/<name>` or the name; `None` if the object has none.
    pub name: Option<String>,
    /// Path of the field, such as `spec.limits.cpu`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
}

fn after_kind(name: Option<&str>) -> String {
    name.map_or_else(|| " without a name".to_owned(), |name| format!(" {name:?}"))
}

/// Reads an object of kind `K`. Fields the kind does not know are ignored.
pub fn decode<K>(value: &Value) -> Result<K, DecodeError>
where
    K: Resource<DynamicType = ()> + DeserializeOwned,
{
    K::deserialize(value).map_err(|error| {
        let problem = error.to_string();
        let path = culprit::<K>(value, &problem);
        let text = |field| {
            value
                .pointer(field)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
        DecodeError {
            kind: K::kind(&()).into_owned(),
            name: match (namespace, name) {
                (Some(namespace), Some(name)) => Some(format!("{namespace}/{name}")),
                (_, name) => name.map(str::to_owned),
            },
            field: if path.is_empty() { ".".to_owned() } else { path },
            problem,
        }
    })
}

/// Finds the field an error is about by leaving fields out until the error changes. Only failures pay for it, and each
/// level of the object costs one attempt per field.
fn culprit<K: DeserializeOwned>(value: &Value, problem: &str) -> String {
    let changes = |probe: &Value| !matches!(K::deserialize(probe), Err(error) if error.to_string() == problem);
    let missing = problem
        .strip_prefix("missing field `")
        .and_then(|rest| rest.strip_suffix('`'));
    let mut path: Vec<String> = Vec::new();
    loop {
        // A field that is missing here: putting anything in its place changes the error, and leaving out its neighbours
        // would mislead.
        if let Some(missing) = missing {
            let mut with = value.clone();
            if let Some(Value::Object(fields)) = at_mut(&mut with, &path)
                && !fields.contains_key(missing)
            {
                fields.insert(missing.to_owned(), Value::Null);
                if changes(&with) {
                    return path.join(".");
                }
            }
        }
        let found = keys(at(value, &path)).into_iter().find(|key| {
            let mut without = value.clone();
            if let Some(parent) = at_mut(&mut without, &path) {
                remove(parent, key);
            }
            changes(&without)
        });
        match found {
            Some(key) => path.push(key),
            None => return path.join("."),
        }
    }
}

fn at<'a>(value: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => value.get(key),
    })
}

fn keys(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Object(fields)) => fields.keys().cloned().collect(),
        Some(Value::Array(items)) => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => Vec::new(),
    }
}

fn at_mut<'a>(value: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(value, |value, key| match value {
        Value::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => value.get_mut(key),
    })
}

fn remove(parent: &mut Value, key: &str) {
    match parent {
        Value::Object(fields) => {
            fields.remove(key);
        }
        Value::Array(items) => {
            if let Ok(at) = key.parse::<usize>()
                && at < items.len()
            {
                items.remove(at);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
