//! What the tests of the server share: a client on an in-process server and small objects.

use std::net::SocketAddr;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kerf_apiserver::{ApiServer, ServingHandle, serve_https};
use kube::Client;
use kube::api::{Api, ListParams, Request};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub(crate) struct Harness {
    pub(crate) server: ApiServer,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::seeded(7)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        Self {
            server: ApiServer::builder().seed(seed).build(),
        }
    }

    pub(crate) fn with_history(events: usize) -> Self {
        Self {
            server: ApiServer::builder().watch_history(events).build(),
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.server.clone(), "default")
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client(), "default")
    }

    pub(crate) fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = ClusterResourceScope>,
        K::DynamicType: Default,
    {
        Api::all(self.client())
    }

    /// A request as a plain HTTP client makes it: code and JSON body.
    pub(crate) async fn call(&self, method: &str, path: &str, accept: &str, body: Option<Value>) -> (u16, Value) {
        let (code, _, text) = self.raw(method, path, accept, "application/json", body).await;
        (code, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Code, headers and text.
    pub(crate) async fn raw(
        &self,
        method: &str,
        path: &str,
        accept: &str,
        content_type: &str,
        body: Option<Value>,
    ) -> (u16, http::HeaderMap, String) {
        use http_body_util::BodyExt;
        use tower::ServiceExt;
        let bytes = body.map(|b| bytes::Bytes::from(b.to_string())).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("accept", accept)
            .header("content-type", content_type)
            .body(http_body_util::Full::new(bytes))
            .unwrap();
        let response = self.server.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        (head.status.as_u16(), head.headers, text)
    }
}

/// A server on a free HTTPS port, with the kubeconfig of its clients.
pub(crate) async fn serve() -> (ServingHandle, Kubeconfig) {
    let handle = serve_https(ApiServer::new(), SocketAddr::from(([127, 0, 0, 1], 0)))
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&handle.kubeconfig()).unwrap();
    (handle, kubeconfig)
}

/// A client with the identity and server of a kubeconfig.
pub(crate) async fn client_of(kubeconfig: Kubeconfig) -> Client {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

pub(crate) fn from<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn config_map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}, "data": {"k": "1"}}))
}

pub(crate) fn owned(name: &str, owners: &[&ConfigMap]) -> ConfigMap {
    let reference = |o: &&ConfigMap| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": o.metadata.name, "uid": o.metadata.uid,
            "blockOwnerDeletion": true,
        })
    };
    let references: Vec<Value> = owners.iter().map(reference).collect();
    from(json!({"metadata": {"name": name, "ownerReferences": references}}))
}

/// A pod of the app `web`.
pub(crate) fn pod(name: &str) -> Pod {
    let mut pod = pod_with_resources(name, &json!({"requests": {"cpu": "100m"}}));
    pod["metadata"]["labels"] = json!({"app": "web"});
    from(pod)
}

/// A pod of one container with these resources.
pub(crate) fn pod_with_resources(name: &str, resources: &Value) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

pub(crate) fn replica_set(name: &str, replicas: i32) -> ReplicaSet {
    from(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
}

pub(crate) async fn bind(pods: &Api<Pod>, name: &str, node: &str) -> kube::Result<Value> {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    });
    let request = Request::new(pods.resource_url())
        .create_subresource(
            "binding",
            name,
            &Default::default(),
            serde_json::to_vec(&binding).unwrap(),
        )
        .unwrap();
    pods.clone().into_client().request(request).await
}

pub(crate) async fn names<K>(api: &Api<K>, params: &ListParams) -> Vec<String>
where
    K: Clone + DeserializeOwned + std::fmt::Debug + kube::ResourceExt,
{
    api.list(params)
        .await
        .unwrap()
        .items
        .iter()
        .map(kube::ResourceExt::name_any)
        .collect()
}

pub(crate) fn code(error: &kube::Error) -> u16 {
    status(error).code
}

pub(crate) fn reason(error: &kube::Error) -> String {
    status(error).reason.clone()
}

pub(crate) fn message(error: &kube::Error) -> String {
    status(error).message.clone()
}

pub(crate) fn status(error: &kube::Error) -> &kube::core::Status {
    match error {
        kube::Error::Api(status) => status,
        other => panic!("no API error: {other}"),
    }
}
