//! An embedded cluster with the controllers on it, and methods for what tests do with it.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool};
use kerf_apiserver::Backup;
use kerf_chaos::{ClusterObject, NamespacedObject};
use kerf_cloud::{CloudProvider, Fault, FaultyProvider, Method};
use kerf_controllers::{Context, Manager, ManagerConfig, ManagerError, Tuning};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::{CancellationToken, Clock, Options};
use kerf_sandbox::Sandbox;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PropagationPolicy};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::merge::merge;
pub(crate) use crate::objects::create;
use crate::objects::create_in;

/// The time between two checks of a condition that is waited for.
const LOOK: Duration = Duration::from_millis(250);

/// A cluster with controllers.
pub(crate) struct Simulation {
    pub(crate) sandbox: Sandbox,
    pub(crate) context: Context,
    shutdown: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl Simulation {
    /// Starts one, with a node class `default` in it.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same with a pool `web`; `spec` is merged over the least there must be.
    pub(crate) async fn with_pool(spec: Value) -> Self {
        let simulation = Self::start().await;
        simulation.pool("web", spec).await;
        simulation
    }

    /// The same with a pool `web` and one pod `web`, which runs.
    pub(crate) async fn with_one_pod(pool: Value, pod: Value) -> Self {
        let simulation = Self::start().await;
        simulation.run_one_pod(pool, pod).await;
        simulation
    }

    /// The same with other options.
    pub(crate) async fn start_with(change: impl FnOnce(&mut Options)) -> Self {
        let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
        let class = json!({"metadata": {"name": "default"}, "spec": {}});
        create::<KwokNodeClass>(&sandbox.client(), class).await;
        Self::join(sandbox, change)
    }

    /// The same with a provider around KWOK's.
    pub(crate) async fn start_around(wrap: impl FnOnce(Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider>) -> Self {
        let sandbox = Sandbox::builder().seed(7).build().await.expect("a sandbox");
        let class = json!({"metadata": {"name": "default"}, "spec": {}});
        create::<KwokNodeClass>(&sandbox.client(), class).await;
        let client = sandbox.client();
        Self::join_around(sandbox, client, |_| {}, wrap)
    }

    /// Controllers whose launches have these faults, one after the other.
    pub(crate) async fn with_faulty_launches(faults: impl IntoIterator<Item = Fault>) -> Self {
        let faults: Vec<Fault> = faults.into_iter().collect();
        Self::start_around(move |provider| {
            let faulty = FaultyProvider::scripted(provider);
            for fault in faults {
                faulty.next(Method::Create, fault);
            }
            Arc::new(faulty)
        })
        .await
    }

    /// Starts controllers on an existing cluster.
    pub(crate) fn join(sandbox: Sandbox, change: impl FnOnce(&mut Options)) -> Self {
        let client = sandbox.client();
        Self::join_as(sandbox, client, change)
    }

    /// The same with a separate client for the controllers, so that faults hit only their calls. The cloud uses the client of the sandbox.
    pub(crate) fn join_as(sandbox: Sandbox, client: Client, change: impl FnOnce(&mut Options)) -> Self {
        Self::join_around(sandbox, client, change, |provider| provider)
    }

    /// The same with a provider around KWOK's.
    pub(crate) fn join_around(
        sandbox: Sandbox,
        client: Client,
        change: impl FnOnce(&mut Options),
        wrap: impl FnOnce(Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider>,
    ) -> Self {
        Self::join_tuned(sandbox, client, change, wrap, Tuning::default())
    }

    /// The same with other settings.
    pub(crate) fn join_tuned(
        sandbox: Sandbox,
        client: Client,
        change: impl FnOnce(&mut Options),
        wrap: impl FnOnce(Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider>,
        tuning: Tuning,
    ) -> Self {
        let clock = sandbox.clock().clone();
        Self::join_clocked(sandbox, client, clock, change, wrap, tuning)
    }

    /// The same with a clock of the controllers' own.
    pub(crate) fn join_clocked(
        sandbox: Sandbox,
        client: Client,
        clock: Clock,
        change: impl FnOnce(&mut Options),
        wrap: impl FnOnce(Arc<dyn CloudProvider>) -> Arc<dyn CloudProvider>,
        tuning: Tuning,
    ) -> Self {
        let mut options = Options::default();
        change(&mut options);
        let interner = Arc::new(Interner::default());
        let catalogue = builtin_catalogue(&interner);
        let provider =
            KwokProvider::new(sandbox.client(), Arc::clone(&interner), catalogue).with_interruption_annotations();
        let manager = Manager::new(ManagerConfig {
            options,
            tuning,
            ..ManagerConfig::alone(client, wrap(Arc::new(provider)), interner, clock)
        });
        let (context, shutdown) = (manager.context().clone(), CancellationToken::new());
        Self {
            sandbox,
            context,
            manager: tokio::spawn(manager.run(shutdown.clone())),
            shutdown,
        }
    }

    pub(crate) fn client(&self) -> Client {
        self.sandbox.client()
    }

    /// Ends the controllers as a crash does; the cluster goes on.
    pub(crate) async fn crash(self) -> Sandbox {
        self.manager.abort();
        let _ = self.manager.await;
        self.sandbox
    }

    /// Puts the cluster back to a backup while the controllers go on. The other parts of the control plane start anew, as they do when an etcd is
    /// restored.
    pub(crate) async fn restore(self, backup: &Backup) -> Self {
        let clock = self.sandbox.clock().clone();
        let api = self.sandbox.stop().await;
        api.restore(backup);
        let sandbox = Sandbox::builder().seed(7).clock(clock).api(api).build().await;
        Self {
            sandbox: sandbox.expect("a sandbox"),
            context: self.context,
            shutdown: self.shutdown,
            manager: self.manager,
        }
    }

    /// Ends the controllers in good order.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }

    /// Creates a pool of the class `default`; `spec` is merged over the least there must be.
    pub(crate) async fn pool(&self, name: &str, spec: Value) -> NodePool {
        let mut pool = json!({"metadata": {"name": name}, "spec": {
            "template": {"spec": {
                "requirements": [],
                "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "expireAfter": "Never",
            }},
            "disruption": {"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
        }});
        merge(&mut pool["spec"], spec);
        create(&self.client(), pool).await
    }

    /// Creates the node class `slow`, whose Nodes register after `delay`.
    pub(crate) async fn slow_class(&self, delay: &str) {
        let class = json!({"metadata": {"name": "slow"}, "spec": {"nodeRegistrationDelay": delay}});
        create::<KwokNodeClass>(&self.client(), class).await;
    }

    /// Creates the node class `slow`, and the pool `web` of it.
    pub(crate) async fn slow_pool(&self, delay: &str) {
        self.slow_class(delay).await;
        let class = json!({"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "slow"});
        self.pool("web", json!({"template": {"spec": {"nodeClassRef": class}}}))
            .await;
    }

    /// The name of one of the claims.
    pub(crate) async fn some_claim(&self) -> String {
        let claim = self.claims().await.pop();
        claim.and_then(|claim| claim.metadata.name).expect("a claim")
    }

    /// Stops the controllers, creates the claim `twin` of this node class for an instance that has one already, and initializes it.
    pub(crate) async fn crash_with_twin(self, class: &str, provider_id: &Value) -> Sandbox {
        let sandbox = self.crash().await;
        let twin = json!({"metadata": {"name": "twin"}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": class},
            "requirements": [], "expireAfter": "Never",
        }});
        create::<NodeClaim>(&sandbox.client(), twin).await;
        let is = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let conditions = [is("Launched"), is("Registered"), is("Initialized")];
        let status = Patch::Merge(json!({"status": {"providerID": provider_id, "conditions": conditions}}));
        let api: Api<NodeClaim> = Api::all(sandbox.client());
        api.patch_status("twin", &PatchParams::default(), &status)
            .await
            .expect("patched");
        sandbox
    }

    /// Creates the pool `web` and as many pods `web`, each of which wants a node of its own, and waits until all is as it should be.
    pub(crate) async fn populate(&self, count: usize, pool: Value) {
        self.pool("web", pool).await;
        let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}]}}});
        let replicas = u32::try_from(count).expect("few");
        self.deployment("web", replicas, "1", apart).await;
        self.until("the pods run", 120, async |s| s.running().await == count)
            .await;
        let ready = async |s: &Self| {
            let claims = s.claims().await;
            claims.len() == count && claims.iter().all(|claim| claim.condition_is_true("Initialized"))
        };
        self.until("the nodes are initialised", 120, ready).await;
    }

    /// Creates a Deployment; `spec` is merged over that of its pods.
    pub(crate) async fn deployment(&self, name: &str, replicas: u32, cpu: &str, spec: Value) {
        let requests = json!({"cpu": cpu, "memory": "256Mi"});
        let mut template = json!({"spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"requests": requests}}],
        }});
        merge(&mut template["spec"], spec);
        self.deploy(name, replicas, template).await;
    }

    /// Creates a Deployment with a template of its own; the label `app` is put on it.
    pub(crate) async fn deploy(&self, name: &str, replicas: u32, mut template: Value) {
        template["metadata"]["labels"]["app"] = json!(name);
        let deployment = json!({"metadata": {"name": name}, "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        }});
        create_in::<Deployment>(&self.client(), "default", deployment).await;
    }

    /// Makes every claim of the pool `web` drift that is not of that generation.
    pub(crate) async fn change_template(&self, generation: &str) {
        let patch = json!({"spec": {"template": {"metadata": {"labels": {"generation": generation}}}}});
        self.patch::<NodePool>("web", patch).await;
    }

    /// Has nodes of the class `default` join so long after their launch.
    pub(crate) async fn delay_registration(&self, delay: &str) {
        let patch = json!({"spec": {"nodeRegistrationDelay": delay}});
        self.patch::<KwokNodeClass>("default", patch).await;
    }

    pub(crate) async fn pods(&self) -> Vec<Pod> {
        list_in(&self.client(), "default").await
    }

    /// Pods that run.
    pub(crate) async fn running(&self) -> usize {
        let pods = self.pods().await;
        let running = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        pods.iter().filter(running).count()
    }

    pub(crate) async fn nodes(&self) -> Vec<Node> {
        list(&self.client()).await
    }

    pub(crate) async fn claims(&self) -> Vec<NodeClaim> {
        list(&self.client()).await
    }

    /// The Events with a reason.
    pub(crate) async fn events(&self, reason: &str) -> Vec<Event> {
        let all: Vec<Event> = list_in(&self.client(), "default").await;
        all.into_iter()
            .filter(|event| event.reason.as_deref() == Some(reason))
            .collect()
    }

    /// The messages of Events with a reason.
    pub(crate) async fn messages(&self, reason: &str) -> Vec<String> {
        let events = self.events(reason).await;
        events.into_iter().filter_map(|event| event.message).collect()
    }

    pub(crate) async fn delete<K: ClusterObject>(&self, name: &str) {
        let api: Api<K> = Api::all(self.client());
        api.delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Deletes a NodePool, but not its NodeClaims.
    pub(crate) async fn delete_pool_only(&self, name: &str) {
        let pools: Api<NodePool> = Api::all(self.client());
        let orphan = DeleteParams {
            propagation_policy: Some(PropagationPolicy::Orphan),
            ..DeleteParams::default()
        };
        pools.delete(name, &orphan).await.expect("deleted");
    }

    pub(crate) async fn patch<K: ClusterObject>(&self, name: &str, patch: Value) {
        let api: Api<K> = Api::all(self.client());
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    /// Waits until `look` returns true, at most `seconds` of the cluster's time.
    pub(crate) async fn until(&self, what: &str, seconds: u64, look: impl AsyncFn(&Self) -> bool) {
        let end = tokio::time::Instant::now() + Duration::from_secs(seconds);
        while !look(self).await {
            assert!(
                tokio::time::Instant::now() < end,
                "not within {seconds} s: {what}\n{}",
                self.picture().await
            );
            assert!(
                !self.manager.is_finished(),
                "the controllers ended while waiting: {what}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until exactly so many pods run.
    pub(crate) async fn until_running(&self, count: usize, seconds: u64) {
        let what = format!("{count} pods run");
        self.until(&what, seconds, async |s| s.running().await == count).await;
    }

    /// Waits until there are exactly so many claims.
    pub(crate) async fn until_claims(&self, count: usize, seconds: u64) {
        let what = format!("{count} claims");
        self.until(&what, seconds, async |s| s.claims().await.len() == count)
            .await;
    }

    /// Waits until there are exactly so many Nodes.
    pub(crate) async fn until_nodes(&self, count: usize, seconds: u64) {
        let what = format!("{count} nodes");
        self.until(&what, seconds, async |s| s.nodes().await.len() == count)
            .await;
    }

    /// Waits until all claims are initialized.
    pub(crate) async fn until_initialized(&self, seconds: u64) {
        let initialized = async |s: &Self| {
            let claims = s.claims().await;
            claims.iter().all(|claim| claim.condition_is_true("Initialized"))
        };
        self.until("all claims are initialized", seconds, initialized).await;
    }

    /// Waits until a claim is gone.
    pub(crate) async fn until_claim_gone(&self, claim: &NodeClaim, seconds: u64) {
        let gone = async |s: &Self| s.current_claim(claim).await.is_none();
        self.until("the claim is gone", seconds, gone).await;
    }

    /// Asserts that a Node is still there after this time.
    pub(crate) async fn node_stays(&self, node: &Node, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        assert!(self.current_node(node).await.is_some(), "it stays");
    }

    /// Waits until a Node is gone.
    pub(crate) async fn until_node_gone(&self, node: &Node, seconds: u64) {
        let gone = async |s: &Self| s.current_node(node).await.is_none();
        self.until("the node is gone", seconds, gone).await;
    }

    /// A claim as it is now, if it still exists.
    pub(crate) async fn current_claim(&self, claim: &NodeClaim) -> Option<NodeClaim> {
        let mut claims = self.claims().await.into_iter();
        claims.find(|other| other.metadata.uid == claim.metadata.uid)
    }

    /// A Node as it is now, if it still exists.
    pub(crate) async fn current_node(&self, node: &Node) -> Option<Node> {
        let mut nodes = self.nodes().await.into_iter();
        nodes.find(|other| other.metadata.uid == node.metadata.uid)
    }

    /// Creates the pool `web` with one pod `web` and waits until it runs.
    pub(crate) async fn run_one_pod(&self, pool: Value, pod: Value) {
        self.pool("web", pool).await;
        self.deployment("web", 1, "1", pod).await;
        self.until_running(1, 120).await;
    }

    /// Changes the replicas of a Deployment.
    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        let api: Api<Deployment> = Api::namespaced(self.client(), "default");
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        api.patch(name, &PatchParams::default(), &patch).await.expect("scaled");
    }

    /// Creates a PodDisruptionBudget for the pods `web`.
    pub(crate) async fn budget(&self, min_available: usize) {
        let budget = json!({"metadata": {"name": "web"}, "spec": {
            "minAvailable": min_available, "selector": {"matchLabels": {"app": "web"}}}});
        create_in::<PodDisruptionBudget>(&self.client(), "default", budget).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }

    /// Makes the kubelet of a node fail in some way; `None` ends that.
    pub(crate) async fn set_kubelet(&self, node: &Node, failure: Option<&str>) {
        let set = self.sandbox.set_kubelet(&name(node), failure).await;
        set.expect("set");
    }

    /// What there is, for failing tests.
    pub(crate) async fn picture(&self) -> String {
        let mut lines = vec![format!("sync: {:?}", self.context.cluster.sync_report())];
        for pool in list::<NodePool>(&self.client()).await {
            lines.push(format!("pool {:?}: {:?}", pool.metadata.name, pool.status));
        }
        for claim in self.claims().await {
            lines.push(format!("claim {:?}: {:?}", claim.metadata.name, claim.status));
        }
        for node in self.nodes().await {
            lines.push(format!("node {:?}: {:?}", node.metadata.name, node.spec));
        }
        for pod in self.pods().await {
            let status = pod.status.unwrap_or_default();
            let node = pod.spec.and_then(|spec| spec.node_name);
            lines.push(format!(
                "pod {:?} on {node:?}: {:?} {:?}",
                pod.metadata.name, status.phase, status.conditions
            ));
        }
        for event in list_in::<Event>(&self.client(), "default").await {
            lines.push(format!("event {:?}: {:?}", event.reason, event.message));
        }
        lines.join("\n")
    }
}

/// Lists a cluster-wide kind.
pub(crate) async fn list<K: ClusterObject>(client: &Client) -> Vec<K> {
    let api: Api<K> = Api::all(client.clone());
    api.list(&ListParams::default()).await.expect("listed").items
}

/// Lists a namespaced kind.
pub(crate) async fn list_in<K: NamespacedObject>(client: &Client, namespace: &str) -> Vec<K> {
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    api.list(&ListParams::default()).await.expect("listed").items
}

/// An object's name.
pub(crate) fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// Whether a claim was made after [`Simulation::change_template`].
pub(crate) fn is_new(claim: &NodeClaim) -> bool {
    let labels = claim.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key("generation"))
}
