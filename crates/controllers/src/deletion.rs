//! Deletes exactly the object that was looked at.

use std::fmt::Debug;

use kerf_runtime::client::ApiErrorKind;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

/// Parameters that delete only the object with this uid, and no other of the same name.
pub(crate) fn exactly(uid: Option<&str>) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.map(str::to_owned),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// An object whose deletion was accepted.
pub(crate) struct Deleted<K> {
    /// The object as it is now, if it has finalizers.
    pub(crate) left: Option<K>,
}

/// Deletes an object, but no other of the same name. `None` when it is gone, which is no error (OPS-105).
pub(crate) async fn delete_exactly<K>(api: &Api<K>, meta: &ObjectMeta) -> Result<Option<Deleted<K>>, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let name = meta.name.as_deref().unwrap_or_default();
    match api.delete(name, &exactly(meta.uid.as_deref())).await {
        Ok(answer) => Ok(Some(Deleted { left: answer.left() })),
        Err(error) => match ApiErrorKind::of(&error) {
            ApiErrorKind::NotFound => Ok(None),
            // Either another object has the name now, or the conflict has another cause and the caller repeats the call.
            ApiErrorKind::Conflict => match api.get_opt(name).await? {
                Some(there) if there.meta().uid == meta.uid => Err(error),
                Some(_) | None => Ok(None),
            },
            _ => Err(error),
        },
    }
}
