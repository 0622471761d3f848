//! What tests read and change in a cluster as a user does: through its API server.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kerf_api::{EC2NodeClass, NodeClaim};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

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
        Api::all(self.client())
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    async fn claims(&self) -> Vec<NodeClaim> {
        Api::all(self.client())
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
    }

    async fn running_pods(&self) -> usize {
        let pods: Vec<Pod> = Api::all(self.client())
            .list(&ListParams::default())
            .await
            .unwrap()
            .items;
        let is_running = |pod: &&Pod| {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
        };
        pods.iter().filter(is_running).count()
    }
}
