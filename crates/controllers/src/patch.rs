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
    let without_status = |mut map: Map<String, Value>| {
        map.remove("status");
        map
    };
    let Some(patch) = patch_between(before, after, lock, without_status)? else {
        return Ok(None);
    };
    let (api, name) = named(client, before);
    api.patch(name, &PatchParams::default(), &patch).await.map(Some)
}

/// Writes the difference in the status. `Ok(None)` when there is none.
pub async fn patch_status<K: Patchable>(
    client: &Client,
    before: &K,
    after: &K,
    lock: Lock,
) -> Result<Option<K>, kube::Error> {
    let only_status = |mut map: Map<String, Value>| {
        let status = map.remove("status").unwrap_or_else(|| json!({}));
        Map::from_iter([("status".to_owned(), status)])
    };
    let Some(patch) = patch_between(before, after, lock, only_status)? else {
        return Ok(None);
    };
    let (api, name) = named(client, before);
    api.patch_status(name, &PatchParams::default(), &patch).await.map(Some)
}

fn named<'a, K: Patchable>(client: &Client, object: &'a K) -> (Api<K>, &'a str) {
    (
        Api::all(client.clone()),
        object.meta().name.as_deref().unwrap_or_default(),
    )
}

/// The patch that turns one part of an object into the other; `None` when they are equal.
fn patch_between<K: Patchable>(
    before: &K,
    after: &K,
    lock: Lock,
    part: impl Fn(Map<String, Value>) -> Map<String, Value>,
) -> Result<Option<Patch<Value>>, kube::Error> {
    // Most passes change nothing, and comparing costs far less than writing both out.
    if before == after {
        return Ok(None);
    }
    let (old, new) = (part(to_map(before)?), part(to_map(after)?));
    Ok(locked(difference(&old, &new), before, lock).map(Patch::Merge))
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
