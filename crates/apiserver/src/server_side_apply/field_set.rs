//! Sets of fields of one object, in the form `fieldsV1` writes them.
//!
//! A path element is the text `fieldsV1` uses: `f:<name>` for a field, `k:<keys as JSON>` for an entry of a keyed list,
//! `v:<value as JSON>` for a value of a set.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A set of paths.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FieldSet(BTreeMap<String, Entry>);

/// What a set holds at and below one path element.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Whether the path itself is a member.
    pub(super) member: bool,
    /// Members below.
    pub(super) below: FieldSet,
}

impl Entry {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether nothing is in the set.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a path; the empty path is nothing.
    pub(super) fn insert(&mut self, path: &[&str]) {
        if let Some((first, rest)) = path.split_first() {
            let entry = self.0.entry((*first).to_owned()).or_default();
            if rest.is_empty() {
                entry.member = true;
            } else {
                entry.below.insert(rest);
            }
        }
    }

    /// Puts a whole entry in, unless it is empty.
    pub(super) fn put(&mut self, element: String, entry: Entry) {
        if !entry.is_empty() {
            self.0.insert(element, entry);
        }
    }

    /// What is at and below one element.
    pub(super) fn get(&self, element: &str) -> Option<&Entry> {
        self.0.get(element)
    }

    /// Everything in either set.
    pub(super) fn union(&self, other: &FieldSet) -> FieldSet {
        let mut out = self.clone();
        for (element, entry) in &other.0 {
            let mine = out.0.entry(element.clone()).or_default();
            mine.member |= entry.member;
            mine.below = mine.below.union(&entry.below);
        }
        out
    }

    /// What is in this set and not in the other.
    pub(super) fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(|element, entry| match other.0.get(element) {
            None => entry.clone(),
            Some(theirs) => Entry {
                member: entry.member && !theirs.member,
                below: entry.below.difference(&theirs.below),
            },
        })
    }

    /// What is in both sets.
    pub(super) fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(|element, entry| {
            other.0.get(element).map_or_else(Entry::default, |theirs| Entry {
                member: entry.member && theirs.member,
                below: entry.below.intersection(&theirs.below),
            })
        })
    }

    fn combine(&self, f: impl Fn(&String, &Entry) -> Entry) -> FieldSet {
        let mut out = FieldSet::default();
        for (element, entry) in &self.0 {
            out.put(element.clone(), f(element, entry));
        }
        out
    }

    /// Every member as messages show it, as in `.spec.containers[name="a"].image`.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.collect_paths("", &mut out);
        out
    }

    fn collect_paths(&self, prefix: &str, out: &mut Vec<String>) {
        for (element, entry) in &self.0 {
            let path = format!("{prefix}{}", shown(element));
            if entry.member {
                out.push(path.clone());
            }
            entry.below.collect_paths(&path, out);
        }
    }

    /// The set as `fieldsV1`.
    pub(super) fn to_json(&self) -> Value {
        let entry_json = |entry: &Entry| match entry.below.to_json() {
            Value::Object(mut map) => {
                if entry.member && !map.is_empty() {
                    map.insert(".".to_owned(), Value::Object(Map::new()));
                }
                Value::Object(map)
            }
            other => other,
        };
        Value::Object(
            self.0
                .iter()
                .map(|(element, entry)| (element.clone(), entry_json(entry)))
                .collect(),
        )
    }

    /// A set from `fieldsV1`; what is not understood is left out.
    pub(super) fn from_json(value: &Value) -> FieldSet {
        let mut out = FieldSet::default();
        for (element, inner) in value.as_object().into_iter().flatten().filter(|(e, _)| *e != ".") {
            let below = FieldSet::from_json(inner);
            let member = inner.get(".").is_some() || below.is_empty();
            out.put(element.clone(), Entry { member, below });
        }
        out
    }
}

fn shown(element: &str) -> String {
    if let Some(name) = element.strip_prefix("f:") {
        return format!(".{name}");
    }
    if let Some(value) = element.strip_prefix("v:") {
        return format!("[={value}]");
    }
    let keys: Map<String, Value> = element
        .strip_prefix("k:")
        .and_then(|k| serde_json::from_str(k).ok())
        .unwrap_or_default();
    let mut pairs: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
    pairs.sort();
    format!("[{}]", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sets_read_and_write_fields_v1() {
        let json = json!({
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}, "f:finalizers": {"v:\"a\"": {}}},
            "f:spec": {"f:containers": {"k:{\"name\":\"x\"}": {".": {}, "f:image": {}}}},
        });
        let set = FieldSet::from_json(&json);
        assert_eq!(set.to_json(), json);
        assert_eq!(
            set.paths(),
            [
                ".metadata.finalizers[=\"a\"]",
                ".metadata.labels",
                ".metadata.labels.app",
                ".spec.containers[name=\"x\"]",
                ".spec.containers[name=\"x\"].image",
            ]
        );
    }

    #[test]
    fn sets_combine_member_by_member() {
        let a = FieldSet::from_json(&json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let b = FieldSet::from_json(&json!({"f:a": {"f:b": {}}, "f:d": {}}));
        assert_eq!(a.difference(&b).to_json(), json!({"f:a": {}, "f:c": {}}));
        assert_eq!(a.intersection(&b).to_json(), json!({"f:a": {"f:b": {}}}));
        assert_eq!(a.union(&b).paths(), [".a", ".a.b", ".c", ".d"]);
        assert!(a.difference(&a).is_empty());
    }
}
