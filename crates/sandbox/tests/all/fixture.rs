//! A sandbox, and short ways to write and read objects in it.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kerf_sandbox::{KubeletOptions, NodeSelection, Sandbox, SandboxBuilder};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) struct Cluster {
    pub(crate) sandbox: Sandbox,
    pub(crate) client: Client,
}

impl Cluster {
    /// A sandbox in which every node has a kubelet.
    pub(crate) async fn start() -> Self {
        Self::with(|builder| builder).await
    }

    pub(crate) async fn with(change: impl FnOnce(SandboxBuilder) -> SandboxBuilder) -> Self {
        let kubelets = KubeletOptions {
            nodes: NodeSelection::All,
            ..KubeletOptions::default()
        };
        let builder = change(Sandbox::builder().seed(7).kubelets(kubelets));
        let sandbox = builder.build().await.expect("a sandbox");
        let client = sandbox.client();
        Self { sandbox, client }
    }

    fn dynamic(&self, object: &Value) -> (Api<DynamicObject>, String) {
        let text = |path: &str| {
            object
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
        let namespaced = !matches!(
            kind.as_str(),
            "Node" | "Namespace" | "StorageClass" | "PriorityClass" | "PersistentVolume" | "CSINode"
        );
        let api = if namespaced {
            Api::namespaced_with(self.client.clone(), "default", &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        };
        (api, text("/metadata/name"))
    }

    pub(crate) async fn create(&self, object: Value) {
        let (api, _) = self.dynamic(&object);
        let typed = serde_json::from_value(object).expect("an object");
        api.create(&PostParams::default(), &typed).await.expect("an answer");
    }

    /// A merge patch of the object whose kind and name the patch carries.
    pub(crate) async fn patch(&self, patch: Value) {
        let (api, name) = self.dynamic(&patch);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .expect("a patch");
    }

    pub(crate) async fn get(&self, api_version: &str, kind: &str, name: &str) -> Value {
        let (api, _) = self.dynamic(&json!({"apiVersion": api_version, "kind": kind}));
        let object = api.get(name).await.expect("an answer");
        serde_json::to_value(object).expect("JSON")
    }

    /// A node with four cores and 16 GiB in a zone.
    pub(crate) async fn node(&self, name: &str, zone: &str) {
        let resources = json!({"cpu": "4", "memory": "16Gi", "pods": "110"});
        self.create(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
            "status": {"capacity": resources, "allocatable": resources},
        }))
        .await;
    }

    pub(crate) async fn nodes(&self, names: &[&str]) {
        for name in names {
            self.node(name, "a").await;
        }
        seconds(15).await;
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.list(&ListParams::default()).await.expect("pods").items
    }

    pub(crate) async fn pod(&self, name: &str) -> Pod {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.get(name).await.expect("an answer")
    }

    pub(crate) async fn delete_pod(&self, name: &str) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        api.delete(name, &kube::api::DeleteParams::default())
            .await
            .expect("a deletion");
    }

    pub(crate) async fn read_node(&self, name: &str) -> Node {
        let api: Api<Node> = Api::all(self.client.clone());
        api.get(name).await.expect("a node")
    }

    pub(crate) async fn events(&self, reason: &str) -> Vec<Event> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), "default");
        let all = api.list(&ListParams::default()).await.expect("events").items;
        all.into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .collect()
    }

    /// The message of the first event with this reason.
    pub(crate) async fn message(&self, reason: &str) -> String {
        let events = self.events(reason).await;
        events[0].message.clone().unwrap_or_default()
    }

    /// Names of the pods that are running and ready, sorted.
    pub(crate) async fn running(&self) -> Vec<String> {
        let pods = self.pods().await;
        pods.iter()
            .filter(|pod| is_ready(pod))
            .map(ResourceExt::name_any)
            .collect()
    }
}

pub(crate) async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

pub(crate) fn phase(pod: &Pod) -> &str {
    pod.status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        .unwrap_or("Pending")
}

pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

pub(crate) fn node_of(pod: &Pod) -> &str {
    pod.spec
        .as_ref()
        .and_then(|spec| spec.node_name.as_deref())
        .unwrap_or_default()
}

pub(crate) fn taints(node: &Node) -> Vec<String> {
    let taints = node
        .spec
        .as_ref()
        .and_then(|spec| spec.taints.as_deref())
        .unwrap_or_default();
    let mut texts: Vec<_> = taints
        .iter()
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect();
    texts.sort();
    texts
}

/// A pod spec that asks for so much cpu.
pub(crate) fn asks(cpu: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]})
}

#[expect(clippy::needless_pass_by_value, reason = "callers make the spec on the spot")]
pub(crate) fn pod(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec})
}

/// A workload of an `apps/v1` kind whose pods are labelled `app: <name>`.
pub(crate) fn workload(kind: &str, name: &str, replicas: u32, cpu: &str) -> Value {
    let labels = json!({"app": name});
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": asks(cpu)},
        },
    })
}
