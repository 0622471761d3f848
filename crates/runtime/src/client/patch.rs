//! The one way to change an API object: only the fields that differ are sent.
//!
//! The caller changes a copy of what it read; the difference is sent as a JSON merge patch. A merge patch replaces lists as a whole. So a
//! change of conditions, taints or finalizers needs [`Lock::Optimistic`], with which the patch fails with a conflict when the object has
//! changed since it was read (OPS-106).
//!
//! An object that is gone is no error (OPS-105). A conflict is one: returned from a reconciliation, it makes the
//! [`Controller`](crate::Controller) repeat the reconciliation with back-off and without a log line. A caller that reads the object again by
//! itself asks [`unless_conflict`](super::unless_conflict).

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{found, name_of};

/// Whether a patch is refused when the object has changed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// It is refused: needed when lists change.
    Optimistic,
    /// It is written all the same.
    None,
}

/// The part of an object that a patch changes. The API server takes them at different paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Everything except the status.
    Object,
    /// The status.
    Status,
}

/// What became of a change.
#[derive(Debug)]
pub enum Written<K> {
    /// The object is gone.
    Gone,
    /// Nothing differed, so nothing was sent.
    Unchanged,
    /// The object as it is stored now.
    Stored(Box<K>),
}

impl<K> Written<K> {
    /// The object as it is stored now, if this call changed it.
    pub fn stored(self) -> Option<K> {
        match self {
            Self::Gone | Self::Unchanged => None,
            Self::Stored(object) => Some(*object),
        }
    }
}

/// A kind that can be compared and patched.
pub trait Patchable: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + PartialEq + Debug {}

impl<K> Patchable for K where K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + PartialEq + Debug {}

/// Writes what `after` changes in `before`, except the status. The error is that of the API server, a conflict included, or says that `before` has no
/// name.
pub async fn patch_object<K: Patchable>(
    api: &Api<K>,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Written<K>, kube::Error> {
    patch_part(api, Part::Object, before, after, lock).await
}

/// Writes what `after` changes in the status of `before`. Errors are those of [`patch_object`].
pub async fn patch_status<K: Patchable>(
    api: &Api<K>,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Written<K>, kube::Error> {
    patch_part(api, Part::Status, before, after, lock).await
}

/// Sends a patch that the caller wrote: one that has to reach the object whatever its fields are, or a strategic one. The error is that of the
/// API server.
pub async fn send_patch<K>(
    api: &Api<K>,
    name: &str,
    part: Part,
    patch: &Patch<Value>,
) -> Result<Written<K>, kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams::default();
    let answer = match part {
        Part::Object => api.patch(name, &params, patch).await,
        Part::Status => api.patch_status(name, &params, patch).await,
    };
    Ok(found(answer)?.map_or(Written::Gone, |stored| Written::Stored(Box::new(stored))))
}

async fn patch_part<K: Patchable>(
    api: &Api<K>,
    part: Part,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Written<K>, kube::Error> {
    // Most passes change nothing, and comparing costs far less than writing both out.
    if before == after {
        return Ok(Written::Unchanged);
    }
    let meta = before.meta();
    let version = meta.resource_version.as_deref().filter(|_| lock == Lock::Optimistic);
    let Some(patch) = difference_in(part, to_map(before)?, to_map(after)?, version) else {
        return Ok(Written::Unchanged);
    };
    send_patch(api, name_of(before)?, part, &Patch::Merge(patch)).await
}

fn to_map<K: Serialize>(object: &K) -> Result<Map<String, Value>, kube::Error> {
    match serde_json::to_value(object).map_err(kube::Error::SerdeError)? {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

/// The patch that turns one part of an object into the other; `None` when they are equal. With a version it is refused if the object has
/// another one.
fn difference_in(
    part: Part,
    before: Map<String, Value>,
    after: Map<String, Value>,
    version: Option<&str>,
) -> Option<Value> {
    let only = |mut map: Map<String, Value>| {
        let status = map.remove("status");
        match part {
            Part::Object => map,
            Part::Status => Map::from_iter([("status".to_owned(), status.unwrap_or_else(|| json!({})))]),
        }
    };
    let mut patch = difference(&only(before), &only(after))?;
    if let Some(version) = version {
        let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
        if let Value::Object(metadata) = metadata {
            metadata.insert("resourceVersion".to_owned(), json!(version));
        }
    }
    Some(Value::Object(patch))
}

/// The JSON merge patch (RFC 7386) that turns one object into the other.
fn difference(old: &Map<String, Value>, new: &Map<String, Value>) -> Option<Map<String, Value>> {
    let mut patch = Map::new();
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    for (key, value) in new {
        match (old.get(key), value) {
            (Some(before), after) if before == after => {}
            (Some(Value::Object(before)), Value::Object(after)) => {
                if let Some(inner) = difference(before, after) {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (_, after) => {
                patch.insert(key.clone(), after.clone());
            }
        }
    }
    (!patch.is_empty()).then_some(patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(map) => map,
            _ => Map::new(),
        }
    }

    #[test]
    fn only_what_changed_is_written() {
        let old = json!({"a": 1, "b": {"x": 1, "y": [1, 2]}, "gone": {"z": 1}});
        let new = json!({"a": 1, "b": {"x": 1, "y": [1]}, "c": "new"});
        let patch = |new: Value| difference(&map(old.clone()), &map(new)).map(Value::Object);
        assert_eq!(patch(new), Some(json!({"b": {"y": [1]}, "c": "new", "gone": null})));
        assert_eq!(patch(old.clone()), None);
    }

    // OPS-106
    #[test]
    fn the_lock_is_the_version_that_was_read() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"x": 1}, "status": {"y": 1}});
        let new = json!({"metadata": {"name": "a"}, "spec": {"x": 2}, "status": {"y": 2}});
        let patch = |part, new: &Value, version| difference_in(part, map(old.clone()), map(new.clone()), version);
        let locked = json!({"status": {"y": 2}, "metadata": {"resourceVersion": "7"}});
        assert_eq!(patch(Part::Status, &new, Some("7")), Some(locked));
        assert_eq!(patch(Part::Status, &new, None), Some(json!({"status": {"y": 2}})));
        let locked = json!({"spec": {"x": 2}, "metadata": {"resourceVersion": "7"}});
        assert_eq!(patch(Part::Object, &new, Some("7")), Some(locked));
        assert_eq!(
            patch(Part::Status, &old, Some("7")),
            None,
            "a version alone is no change"
        );
    }
}
