//! Answers without what differs from run to run, and their comparison.

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

/// Fields that only say who wrote what; the embedded server keeps them only for applied objects.
const DROPPED: [&str; 1] = ["managedFields"];

/// The answer with a placeholder for every varying value.
pub(super) fn normalize(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(key, _)| !DROPPED.contains(&key.as_str()))
            .map(|(key, value)| {
                let varies = VARYING.contains(&key.as_str()) && value.as_str().is_some_and(|text| !text.is_empty());
                let value = if varies {
                    format!("<{key}>").into()
                } else {
                    normalize(value)
                };
                (key, value)
            })
            .collect(),
        Value::Array(items) => items.into_iter().map(normalize).collect(),
        Value::String(text) if is_age(&text) => "<age>".into(),
        Value::String(text) => without_uids(&text).into(),
        other => other,
    }
}

/// An age in a Table, such as `0s` or `1m5s`.
fn is_age(text: &str) -> bool {
    text.len() < 6
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.ends_with(['s', 'm'])
        && text.chars().all(|c| c.is_ascii_digit() || "sm".contains(c))
}

/// The text with every uid in it replaced, for messages that quote one.
fn without_uids(text: &str) -> String {
    let is_uid = |word: &str| word.len() == 36 && word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
    let words: Vec<&str> = text
        .split(' ')
        .map(|word| {
            if is_uid(word) && !word.starts_with("00000000") {
                "<uid>"
            } else {
                word
            }
        })
        .collect();
    words.join(" ")
}

/// Adds a line for every path at which `found` differs from `expected`.
pub(super) fn compare(path: &str, expected: &Value, found: &Value, differences: &mut Vec<String>) {
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
        _ => differences.push(format!("{path}: recorded {expected}, found {found}")),
    }
}

#[test]
fn varying_values_are_replaced_and_nulls_are_kept() {
    let answer = serde_json::json!({"metadata": {"uid": "x", "resourceVersion": "", "managedFields": []}, "items": null, "cells": ["a", "12s"]});
    let expected = serde_json::json!({"metadata": {"uid": "<uid>", "resourceVersion": ""}, "items": null, "cells": ["a", "<age>"]});
    assert_eq!(normalize(answer), expected);
}

#[test]
fn a_null_is_no_empty_list() {
    let mut differences = Vec::new();
    let (null, empty) = (serde_json::json!({"items": null}), serde_json::json!({"items": []}));
    compare("", &null, &empty, &mut differences);
    assert_eq!(differences, ["/items: recorded null, found []"]);
}
