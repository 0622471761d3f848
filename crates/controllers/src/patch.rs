//! Writes the fields of an object that changed, and nothing else.
//!
//! The caller changes a copy; the difference is sent as a JSON merge patch. A merge patch replaces lists as a whole. So a change of
//! conditions, taints or finalizers needs [`Lock::Optimistic`], with which the patch fails with a conflict when the object has changed
//! since it was read (OPS-106). NodeClaims are written through `claim_writes`.

use std::fmt::Debug;

use kube::api::{Patch, PatchParams};
use kube::core::ClusterResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Whether a patch is refused when the object has changed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// It is refused: needed when lists change.
    Optimistic,
    /// It is written all the same.
    None,
}

/// A cluster-wide kind that can be patched.
pub trait Patchable:
    Resource<DynamicType = (), Scope = ClusterResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + PartialEq
    + Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Patchable for K where
    K: Resource<DynamicType = (), Scope = ClusterResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + PartialEq
        + Debug
        + Send
        + Sync
        + 'static
{
}

/// Writes the difference except that in the status. `Ok(None)` when there is none.
pub async fn patch_object<K: Patchable>(
    client: &Client,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Option<K>, kube::Error> {
    // Most passes change nothing, and comparing costs far less than writing both out.
    if before == after {
        return Ok(None);
    }
    let (mut old, mut new) = (to_map(before)?, to_map(after)?);
    old.remove("status");
    new.remove("status");
    let Some(patch) = locked(difference(&old, &new), before, lock) else {
        return Ok(None);
    };
    let api: Api<K> = Api::all(client.clone());
    let name = before.meta().name.as_deref().unwrap_or_default();
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(Some)
}

/// Writes the difference in the status. `Ok(None)` when there is none.
pub async fn patch_status<K: Patchable>(
    client: &Client,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Option<K>, kube::Error> {
    if before == after {
        return Ok(None);
    }
    let status = |mut map: Map<String, Value>| map.remove("status").unwrap_or_else(|| json!({}));
    let (old, new) = (status(to_map(before)?), status(to_map(after)?));
    let inner = match (old, new) {
        (Value::Object(old), Value::Object(new)) => difference(&old, &new),
        _ => None,
    };
    let wrapped = inner.map(|inner| Map::from_iter([("status".to_owned(), Value::Object(inner))]));
    let Some(patch) = locked(wrapped, before, lock) else {
        return Ok(None);
    };
    let api: Api<K> = Api::all(client.clone());
    let name = before.meta().name.as_deref().unwrap_or_default();
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .map(Some)
}

fn to_map<K: Serialize>(object: &K) -> Result<Map<String, Value>, kube::Error> {
    match serde_json::to_value(object).map_err(kube::Error::SerdeError)? {
        Value::Object(map) => Ok(map),
        _ => Ok(Map::new()),
    }
}

fn locked<K: Resource>(patch: Option<Map<String, Value>>, read: &K, lock: Lock) -> Option<Value> {
    let mut patch = patch?;
    if lock == Lock::Optimistic
        && let Some(version) = &read.meta().resource_version
    {
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

    fn patch(old: Value, new: Value) -> Option<Value> {
        let map = |value| match value {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        difference(&map(old), &map(new)).map(Value::Object)
    }

    #[test]
    fn only_what_changed_is_written() {
        let old = json!({"a": 1, "b": {"x": 1, "y": [1, 2]}, "gone": {"z": 1}});
        let new = json!({"a": 1, "b": {"x": 1, "y": [1]}, "c": "new"});
        assert_eq!(
            patch(old.clone(), new),
            Some(json!({"b": {"y": [1]}, "c": "new", "gone": null}))
        );
        assert_eq!(patch(old.clone(), old), None);
    }

    // OPS-106
    #[test]
    fn the_lock_is_the_version_that_was_read() {
        let mut pool = kerf_api::NodeClaim::default();
        pool.metadata.resource_version = Some("7".to_owned());
        let change = || Some(Map::from_iter([("status".to_owned(), json!({}))]));
        let with = locked(change(), &pool, Lock::Optimistic);
        assert_eq!(with, Some(json!({"status": {}, "metadata": {"resourceVersion": "7"}})));
        assert_eq!(locked(change(), &pool, Lock::None), Some(json!({"status": {}})));
        assert_eq!(locked(None, &pool, Lock::Optimistic), None);
    }
}
