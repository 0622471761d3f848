//! What tests read and change in a cluster as a user does: through its API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{EC2NodeClass, NodeClaim};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::time::Duration;

/// Creates the objects of a text.
pub(crate) async fn apply(client: &Client, text: &str) {
    for document in text.split("\n---\n") {
        let object: DynamicObject = serde_saphyr::from_str(document).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let resource = ApiResource::from_gvk(&kind);
        let api = match object.namespace() {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(client.clone(), &namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        api.create(&PostParams::default(), &object).await.unwrap();
    }
}

/// All objects of a kind.
async fn all<K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug>(client: &Client) -> Vec<K> {
    let listed = Api::all(client.clone()).list(&ListParams::default()).await;
    listed.unwrap().items
}

/// A cluster with the Deployment and the class of `examples/aws-getting-started.yaml`.
pub(crate) trait ClusterObjects {
    fn client(&self) -> Client;

    /// Creates the objects of a text.
    async fn apply(&self, text: &str) {
        apply(&self.client(), text).await;
    }

    async fn scale(&self, replicas: u32) {
        let api = Api::<Deployment>::default_namespaced(self.client());
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch("inflate", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn patch_class(&self, spec: Value) {
        let api = Api::<EC2NodeClass>::all(self.client());
        let patch = Patch::Merge(json!({"spec": spec}));
        api.patch("default", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn class(&self) -> EC2NodeClass {
        Api::all(self.client()).get("default").await.unwrap()
    }

    async fn nodes(&self) -> Vec<Node> {
        all(&self.client()).await
    }

    async fn claims(&self) -> Vec<NodeClaim> {
        all(&self.client()).await
    }

    async fn running_pods(&self) -> usize {
        let pods: Vec<Pod> = all(&self.client()).await;
        let is_running = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        pods.iter().filter(is_running).count()
    }

    /// The instances that the cluster has, and more that helps to see why a test waits without success.
    async fn describe_cloud(&self) -> String;

    /// Waits until something holds, at most so long.
    async fn until(&self, what: &str, minutes: u64, holds: impl AsyncFn(&Self) -> bool)
    where
        Self: Sized,
    {
        for _ in 0..minutes * 12 {
            if holds(self).await {
                return;
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
        let claims = self.claims().await;
        let claims: Vec<_> = claims.iter().map(|claim| (claim.name_any(), &claim.status)).collect();
        let (class, cloud) = (self.class().await, self.describe_cloud().await);
        panic!(
            "not within {minutes} minutes: {what}\n{claims:#?}\n{:#?}\n{cloud}",
            class.status
        );
    }
}
