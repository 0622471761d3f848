//! Reads which volumes are attached to a node, and which of them belong to pods that stay (LIF-088, LIF-091).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kerf_lifecycle::volumes::Attachment;
use kerf_runtime::client::found;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a list is used: nodes that wait at the same time share one, and each polls once a second.
const SHARED_FOR: Duration = Duration::from_millis(800);

/// The attachments of the whole cluster, read on demand. API servers cannot select them by node.
pub(super) struct Attachments {
    client: Client,
    last: Mutex<Option<(Instant, Arc<Vec<VolumeAttachment>>)>>,
}

impl Attachments {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            last: Mutex::default(),
        }
    }

    /// All attachments, at most [`SHARED_FOR`] old.
    pub(super) async fn list(&self) -> Result<Arc<Vec<VolumeAttachment>>, kube::Error> {
        let mut last = self.last.lock().await;
        if let Some((at, list)) = &*last
            && at.elapsed() < SHARED_FOR
        {
            return Ok(Arc::clone(list));
        }
        let api: Api<VolumeAttachment> = Api::all(self.client.clone());
        let list = Arc::new(api.list(&ListParams::default()).await?.items);
        *last = Some((Instant::now(), Arc::clone(&list)));
        Ok(list)
    }

    /// The persistent volumes of pods, given by namespace and name. Claims that are missing are ignored (LIF-091).
    pub(super) async fn volumes_of(&self, pods: &[(&str, &str)]) -> Result<BTreeSet<String>, kube::Error> {
        let mut volumes = BTreeSet::new();
        for (namespace, name) in pods {
            let api: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let Some(pod) = found(api.get(name).await)? else {
                continue;
            };
            let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.client.clone(), namespace);
            for claim in claim_names(name, &pod) {
                let claim = found(claims.get(&claim).await)?;
                volumes.extend(claim.and_then(|claim| claim.spec?.volume_name));
            }
        }
        Ok(volumes)
    }
}

/// An attachment in the terms of the rules; `None` when it has no name.
pub(super) fn attachment(object: &VolumeAttachment) -> Option<Attachment<'_>> {
    Some(Attachment {
        name: object.metadata.name.as_deref()?,
        node: &object.spec.node_name,
        volume: object.spec.source.persistent_volume_name.as_deref(),
    })
}

/// The names of the volume claims of a pod of that name, those of generic ephemeral volumes included.
fn claim_names(name: &str, pod: &Pod) -> BTreeSet<String> {
    let volumes = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_deref())
        .unwrap_or_default();
    let claim = |volume: &k8s_openapi::api::core::v1::Volume| match (&volume.persistent_volume_claim, &volume.ephemeral)
    {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{name}-{}", volume.name)),
        (None, None) => None,
    };
    volumes.iter().filter_map(claim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // LIF-091
    #[test]
    fn named_and_ephemeral_volume_claims_count() {
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {},
            "spec": {"containers": [], "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "scratch", "ephemeral": {}},
                {"name": "c", "emptyDir": {}},
            ]},
        }))
        .expect("a pod");
        assert_eq!(
            claim_names("web", &pod).into_iter().collect::<Vec<_>>(),
            ["data", "web-scratch"]
        );
    }
}
