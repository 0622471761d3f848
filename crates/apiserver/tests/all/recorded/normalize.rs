//! Answers without what differs from run to run, and their comparison.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// Fields whose values differ between runs: their presence is compared, not their value.
const VARYING: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "lastUpdateTime",
    "continue",
    "startTime",
    "acceptedAt",
];

/// Fields that are not compared: field managers, which the embedded server keeps only for applied objects, and documentation of columns.
const DROPPED: [&str; 2] = ["managedFields", "description"];

/// The answer with a placeholder for every varying value.
pub(super) fn normalize(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !DROPPED.contains(&key.as_str()))
            .map(|(key, value)| {
                let varies = VARYING.contains(&key.as_str()) && value.as_str().is_some_and(|text| !text.is_empty());
                let value = match value {
                    _ if varies => format!("<{key}>").into(),
                    Value::Array(cells) if key == "cells" => cells.into_iter().map(without_age).collect(),
                    value => normalize(value),
                };
                (key, value)
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(normalize).collect(),
        Value::String(text) => without_uids(&text).into(),
        other => other,
    }
}

/// A cell of a Table, with a placeholder for an age such as `0s` or `1m5s`.
fn without_age(cell: Value) -> Value {
    let is_age = |text: &str| {
        text.len() < 6
            && text.starts_with(|c: char| c.is_ascii_digit())
            && text.ends_with(['s', 'm'])
            && text.chars().all(|c| c.is_ascii_digit() || "sm".contains(c))
    };
    match cell {
        Value::String(text) if is_age(&text) => "<age>".into(),
        cell => cell,
    }
}

/// The text with every random uid in it replaced, for messages that quote one.
fn without_uids(text: &str) -> String {
    let uid = Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}").unwrap();
    uid.replace_all(text, "<uid>").into_owned()
}

/// What differs, by the path in the answer.
pub(super) type Differences = BTreeMap<String, String>;

/// Adds an entry for every path at which `found` differs from `expected`.
pub(super) fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Differences) {
    match (expected, found) {
        (Value::Object(before), Value::Object(after)) => {
            let absent = Value::String("<absent>".to_owned());
            for key in before
                .keys()
                .chain(after.keys().filter(|key| !before.contains_key(*key)))
            {
                let (before, after) = (before.get(key).unwrap_or(&absent), after.get(key).unwrap_or(&absent));
                compare(&format!("{path}/{key}"), before, after, differences);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (i, (before, after)) in before.iter().zip(after).enumerate() {
                compare(&format!("{path}/{i}"), before, after, differences);
            }
        }
        _ if expected == found => {}
        _ => drop(differences.insert(path.to_owned(), format!("recorded {expected}, found {found}"))),
    }
}

#[test]
fn varying_values_are_replaced_and_nulls_are_kept() {
    let answer = serde_json::json!({"metadata": {"uid": "x", "resourceVersion": "", "managedFields": [], "cpu": "100m"}, "items": null, "cells": ["a", "12s"]});
    let expected = serde_json::json!({"metadata": {"uid": "<uid>", "resourceVersion": "", "cpu": "100m"}, "items": null, "cells": ["a", "<age>"]});
    assert_eq!(normalize(answer), expected);
}

#[test]
fn a_null_is_no_empty_list() {
    let mut differences = Differences::new();
    let (null, empty) = (serde_json::json!({"items": null}), serde_json::json!({"items": []}));
    compare("", &null, &empty, &mut differences);
    let expected = Differences::from([("/items".to_owned(), "recorded null, found []".to_owned())]);
    assert_eq!(differences, expected);
}
