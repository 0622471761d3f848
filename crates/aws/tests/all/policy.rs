//! What an IAM policy allows, evaluated as AWS documents it: for the actions, resources and conditions that the controller's policy has.

use serde_json::Value;
use std::collections::BTreeMap;

/// The keys of a request, such as `aws:RequestTag/…`. A key may have several values.
pub(crate) type Keys = BTreeMap<String, Vec<String>>;

/// The keys of the tags of a resource or a request.
pub(crate) fn tag_keys(kind: &str, tags: &BTreeMap<String, String>) -> Keys {
    let of_tag = |(tag, value): (&String, &String)| (format!("aws:{kind}Tag/{tag}"), vec![value.clone()]);
    let mut keys: Keys = tags.iter().map(of_tag).collect();
    if kind == "Request" {
        keys.insert("aws:TagKeys".to_owned(), tags.keys().cloned().collect());
    }
    keys
}

fn texts(value: &Value) -> Vec<&str> {
    match value {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect(),
    }
}

/// Whether a text matches a pattern with `*`.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((start, rest)) => text
            .strip_prefix(start)
            .is_some_and(|left| (0..=left.len()).any(|at| left.get(at..).is_some_and(|tail| matches(rest, tail)))),
    }
}

fn holds(operator: &str, wanted: &Value, found: Option<&Vec<String>>) -> bool {
    let wanted = texts(wanted);
    let equal = |value: &String| wanted.contains(&value.as_str());
    match operator {
        "StringEquals" => found.is_some_and(|values| values.iter().any(equal)),
        "StringEqualsIfExists" => found.is_none_or(|values| values.iter().any(equal)),
        "ForAllValues:StringEquals" => found.is_none_or(|values| values.iter().all(equal)),
        "StringLike" => found.is_some_and(|values| {
            values
                .iter()
                .any(|value| wanted.iter().any(|pattern| matches(pattern, value)))
        }),
        other => {
            assert_eq!(other, "", "the operator is not evaluated");
            false
        }
    }
}

/// Whether a statement of the policy allows an action on a resource.
pub(crate) fn allows(policy: &Value, action: &str, resource: &str, keys: &Keys) -> bool {
    let statements = policy["Statement"].as_array().unwrap();
    statements.iter().any(|statement| {
        let conditions = statement["Condition"].as_object();
        statement["Effect"] == "Allow"
            && texts(&statement["Action"]).contains(&action)
            && texts(&statement["Resource"])
                .iter()
                .any(|pattern| matches(pattern, resource))
            && conditions.into_iter().flatten().all(|(operator, wanted)| {
                let mut each = wanted.as_object().unwrap().iter();
                each.all(|(key, wanted)| holds(operator, wanted, keys.get(key)))
            })
    })
}
