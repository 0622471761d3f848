//! Deletes exactly the object that was read.

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

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::api::PostParams;

    use super::*;

    // LIF-082: what is deleted is the claim that was found, not one that has its name since.
    #[tokio::test]
    async fn a_deletion_reaches_no_namesake() {
        let client = Client::new(kerf_apiserver::ApiServer::builder().build(), "default");
        let api: Api<ConfigMap> = Api::namespaced(client, "default");
        let mut map = ConfigMap::default();
        map.metadata.name = Some("web-1".to_owned());
        let there = api
            .create(&PostParams::default(), &map)
            .await
            .expect("created")
            .metadata;
        let before = ObjectMeta {
            uid: Some("00000000-0000-4000-8000-000000000000".to_owned()),
            ..there.clone()
        };
        let deleted = delete_exactly(&api, &before).await.expect("no error");
        assert!(deleted.is_none());
        assert!(api.get_opt("web-1").await.expect("an answer").is_some(), "it stays");
        let deleted = delete_exactly(&api, &there).await.expect("no error");
        assert!(deleted.is_some());
        assert!(api.get_opt("web-1").await.expect("an answer").is_none(), "it went");
    }
}
