//! A cluster in memory with running controllers.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use http_body_util::BodyExt;
use kerf_cloud::CloudProvider;
use kerf_controllers::{Election, Manager, ManagerConfig, ManagerError, Tuning, label_names};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::client::ApiLayers;
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::server::metrics_router;
use kerf_runtime::{CancellationToken, Metrics, Options, Seed};
use kerf_sandbox::{CapturedLog, Sandbox};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::scrape::Scrape;

pub(crate) const POOLS: &str = "/apis/karpenter.sh/v1/nodepools";
pub(crate) const CLAIMS: &str = "/apis/karpenter.sh/v1/nodeclaims";
pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CLASSES: &str = "/apis/karpenter.kwok.sh/v1alpha1/kwoknodeclasses";
const EVENTS: &str = "/api/v1/namespaces/default/events";

/// The time between two checks of a condition that is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// A cluster with controllers that are elected.
pub(crate) struct Cluster {
    sandbox: Sandbox,
    client: Client,
    replica: Replica,
    pub(crate) log: CapturedLog,
}

/// One process of the controllers.
pub(crate) struct Replica {
    metrics: Metrics,
    shutdown: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl Replica {
    fn start(sandbox: &Sandbox, options: Options, identity: &str) -> Self {
        let interner = Arc::new(Interner::default());
        let provider = KwokProvider::new(sandbox.client(), Arc::clone(&interner), builtin_catalogue(&interner));
        let metrics = Metrics::new(label_names(provider.profile()));
        let layers = ApiLayers::new().metrics(&metrics);
        let manager = Manager::new(ManagerConfig {
            client: layers.client(sandbox.api().clone(), "default"),
            election: Some(Election {
                client: layers.for_election().client(sandbox.api().clone(), "default"),
                config: ElectionConfig::new("karpenter-leader-election", "default", identity.to_owned()),
            }),
            provider: Arc::new(provider),
            options,
            clock: sandbox.clock().clone(),
            seed: Seed(7),
            interner,
            metrics: metrics.clone(),
            listen: false,
            tuning: Tuning::default(),
        });
        let shutdown = CancellationToken::new();
        Self {
            metrics,
            manager: tokio::spawn(manager.run(shutdown.clone())),
            shutdown,
        }
    }

    /// Reads the metrics as Prometheus does.
    pub(crate) async fn scrape(&self) -> Scrape {
        let router = metrics_router(self.metrics.clone(), false);
        let request = Request::get("/metrics").body(String::new()).expect("a request");
        let answer = router.oneshot(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let body = answer.into_body().collect().await.expect("a body").to_bytes();
        Scrape(String::from_utf8(body.to_vec()).expect("UTF-8"))
    }

    /// Ends it in good order.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }
}

impl Cluster {
    /// Starts one with a node class `default`.
    pub(crate) async fn start(change: impl FnOnce(&mut Options)) -> Self {
        let log = CapturedLog::start();
        let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
        let mut options = Options::default();
        change(&mut options);
        let replica = Replica::start(&sandbox, options, "kerf-0_1");
        let cluster = Self {
            client: sandbox.client(),
            sandbox,
            replica,
            log,
        };
        let class = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass",
                           "metadata": {"name": "default"}, "spec": {}});
        cluster.create(CLASSES, class).await;
        cluster
    }

    async fn send(&self, method: &str, path: &str, kind: &str, body: Option<Value>) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", kind);
        let body = body.map_or_else(Vec::new, |body| serde_json::to_vec(&body).expect("JSON"));
        let request = request.body(body).expect("a request");
        let answer = self.client.request::<Value>(request).await;
        answer.expect(path)
    }

    /// Creates an object in the collection at a path.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send("POST", path, "application/json", Some(object)).await
    }

    /// Applies a merge patch to the object at a path.
    pub(crate) async fn patch(&self, path: &str, patch: Value) -> Value {
        self.send("PATCH", path, "application/merge-patch+json", Some(patch))
            .await
    }

    /// Deletes the object at a path.
    pub(crate) async fn delete(&self, path: &str) {
        self.send("DELETE", path, "application/json", None).await;
    }

    /// The objects of the collection at a path.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self.send("GET", path, "application/json", None).await;
        let items = list["items"].take();
        serde_json::from_value(items).expect(path)
    }

    /// Kerf's events with a reason.
    pub(crate) async fn events(&self, reason: &str) -> Vec<Value> {
        let mut events = self.list(EVENTS).await;
        events.retain(|event| event["reason"] == reason && event["source"]["component"] == "karpenter");
        events
    }

    /// Creates the pool `web`; `spec` is put over the least there must be, field by field.
    pub(crate) async fn pool(&self, spec: Value) {
        let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "web"}, "spec": {
            "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            }},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        }});
        for (key, value) in spec.as_object().into_iter().flatten() {
            pool["spec"][key] = value.clone();
        }
        self.create(POOLS, pool).await;
    }

    /// Creates a Deployment; `spec` is put over that of its pods, field by field. Pods that request one core have a limit of two.
    pub(crate) async fn deployment(&self, name: &str, replicas: u32, cpu: &str, spec: Value) {
        let limit = if cpu == "1" { "2" } else { cpu };
        let resources = json!({"requests": {"cpu": cpu, "memory": "256Mi"}, "limits": {"cpu": limit, "memory": "1Gi"}});
        let mut pod = json!({"containers": [{"name": "main", "image": "app", "resources": resources}]});
        for (key, value) in spec.as_object().into_iter().flatten() {
            pod[key] = value.clone();
        }
        let labels = json!({"app": name});
        let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
            "replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        }});
        self.create(DEPLOYMENTS, deployment).await;
    }

    /// Changes the replicas of a Deployment.
    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        self.patch(
            &format!("{DEPLOYMENTS}/{name}"),
            json!({"spec": {"replicas": replicas}}),
        )
        .await;
    }

    /// Makes the kubelet of a Node fail; `None` ends that.
    pub(crate) async fn set_kubelet(&self, node: &str, failure: Option<&str>) {
        self.sandbox.set_kubelet(node, failure).await.expect("set");
    }

    /// Waits until `look` returns true, at most `seconds` of the cluster's time.
    pub(crate) async fn until(&self, what: &str, seconds: u64, look: impl AsyncFn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while !look(self).await {
            assert!(tokio::time::Instant::now() < end, "not within {seconds} s: {what}");
            assert!(
                !self.replica.manager.is_finished(),
                "the controllers ended while waiting: {what}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until exactly so many pods are ready.
    pub(crate) async fn until_ready(&self, count: usize) {
        let ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let what = format!("{count} pods are ready");
        self.until(&what, 300, async |c| {
            c.list(PODS).await.iter().filter(|pod| ready(pod)).count() == count
        })
        .await;
    }

    /// Waits until there are exactly so many NodeClaims and Nodes.
    pub(crate) async fn until_nodes(&self, count: usize, seconds: u64) {
        let what = format!("{count} nodes");
        self.until(&what, seconds, async |c| {
            c.list(NODES).await.len() == count && c.list(CLAIMS).await.len() == count
        })
        .await;
    }

    /// Starts another process of the controllers, which does not lead.
    pub(crate) async fn second_replica(&self) -> Replica {
        let replica = Replica::start(&self.sandbox, Options::default(), "kerf-1_2");
        tokio::time::sleep(Duration::from_secs(10)).await;
        replica
    }

    /// Reads the metrics as Prometheus does.
    pub(crate) async fn scrape(&self) -> Scrape {
        self.replica.scrape().await
    }

    /// Ends the controllers in good order.
    pub(crate) async fn stop(self) {
        self.replica.stop().await;
    }
}

/// The name of an object.
pub(crate) fn name(object: &Value) -> String {
    object["metadata"]["name"].as_str().expect("a name").to_owned()
}
