//! Deletes exactly the object that was read.

use std::fmt::Debug;

use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;

use super::ApiErrorKind;
use super::identity::{name_in, uid_in};

/// Parameters that delete only the object with this uid, and no other of the same name.
pub fn uid_precondition(uid: &str) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

/// An object whose deletion was accepted.
#[derive(Debug)]
pub struct Deleted<K> {
    /// The object as it is now, if it has finalizers.
    pub left: Option<K>,
}

/// Deletes an object that was read, and no other of the same name (LIF-082). Returns `None` if it is gone, which is no error (OPS-105). Without a
/// name or unique id nothing is sent: that would delete whatever has the name.
pub async fn delete_exactly<K>(api: &Api<K>, meta: &ObjectMeta) -> Result<Option<Deleted<K>>, kube::Error>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug,
{
    let (name, uid) = (name_in::<K>(meta)?, uid_in::<K>(meta)?);
    match api.delete(name, &uid_precondition(uid)).await {
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
