//! A real control plane with simulated kubelets and the controllers, and methods for what tests do with it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kerf_api::{Conditioned, KwokNodeClass, NodeClaim, NodePool, Provider};
use kerf_chaos::{NamespacedObject, Object};
use kerf_cli::controller_rules;
use kerf_controllers::{Context, Election, Manager, ManagerConfig, ManagerError, Timeouts, Tuning};
use kerf_kwok::{KwokProvider, builtin_catalogue};
use kerf_model::intern::Interner;
use kerf_runtime::client::{ApiLayers, Retry};
use kerf_runtime::leader::ElectionConfig;
use kerf_runtime::options::FeatureGates;
use kerf_runtime::{CancellationToken, Clock, Metrics, Options, Seed};
use kerf_sandbox::{ActorOptions, Actors, KubeletOptions, NodeSelection, Scoring};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use serde_json::{Value, json};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::merge::merge;
use crate::objects::{create, create_in};
use crate::real_control_plane::control_plane::{CONTROLLER, ControlPlane};

/// The lease of replicas, in the namespace `default`.
pub(crate) const LEASE: &str = "kerf";
/// The time between two checks of a condition that is waited for.
const LOOK: Duration = Duration::from_millis(50);
/// One control plane at a time: two on a small machine make each other miss their deadlines.
static TURN: Mutex<()> = Mutex::const_new(());

/// Waits until no other test has a control plane.
pub(crate) async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// A cluster without controllers of ours.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) seen: Seen,
    // Before the control plane they talk to.
    _actors: Actors,
    plane: ControlPlane,
    _turn: MutexGuard<'static, ()>,
}

/// Gives the controllers the roles of an installation, and no other permission.
async fn bind_role(client: &Client) {
    let rules = controller_rules(Provider::Kwok, true, LEASE);
    create::<ClusterRole>(client, json!({"metadata": {"name": CONTROLLER}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": CONTROLLER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": CONTROLLER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": CONTROLLER}],
    });
    create::<ClusterRoleBinding>(client, binding).await;
}

/// Every uid that was observed.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) claims: BTreeSet<String>,
    pub(crate) nodes: BTreeSet<String>,
    pub(crate) pods: BTreeSet<String>,
}

impl Cluster {
    /// Starts one with our definitions and a node class `default` in it, whose nodes appear after a delay such as `2s`.
    pub(crate) async fn start(registration_delay: &str) -> Self {
        let turn = turn().await;
        let plane = ControlPlane::start().await;
        // A server that has just learnt of a kind asks for a moment.
        let patient = ApiLayers::new().retry(Retry::new(Seed::from_entropy().rng()));
        let client = plane.client(&patient);
        install_definitions(&client).await;
        bind_role(&client).await;
        let actors = ActorOptions {
            scheduler: (!plane.has_scheduler()).then(Scoring::default),
            kubelets: KubeletOptions {
                nodes: NodeSelection::Marked,
                node_ready_after: Duration::from_secs(1),
                pod_ready_after: Duration::from_millis(200),
                pod_stops_after: Duration::from_millis(200),
                ..KubeletOptions::default()
            },
            controller_manager: !plane.has_controller_manager(),
            ..ActorOptions::default()
        };
        let shutdown = CancellationToken::new();
        let actors = Actors::start(client.clone(), Clock::system(), Seed(7), &actors, shutdown).await;
        let class = json!({"metadata": {"name": "default"}, "spec": {"nodeRegistrationDelay": registration_delay}});
        create::<KwokNodeClass>(&client, class).await;
        Self {
            client,
            seen: Seen::default(),
            _actors: actors,
            plane,
            _turn: turn,
        }
    }

    /// Starts controllers on it, with the layers they have in production.
    pub(crate) fn controllers(&self) -> Controllers {
        self.controllers_with(FeatureGates::default(), Timeouts::default())
    }

    /// The same with features, and with another patience than usual.
    pub(crate) fn controllers_with(&self, feature_gates: FeatureGates, timeouts: Timeouts) -> Controllers {
        self.start_controllers(feature_gates, timeouts, None)
    }

    /// Starts controllers that act while they hold [`LEASE`].
    pub(crate) fn replica(&self, identity: &str) -> Controllers {
        let election = Election {
            client: self.plane.controller_client(&ApiLayers::new()),
            config: ElectionConfig::new(LEASE, "default", identity),
        };
        self.start_controllers(FeatureGates::default(), Timeouts::default(), Some(election))
    }

    fn start_controllers(
        &self,
        feature_gates: FeatureGates,
        timeouts: Timeouts,
        election: Option<Election>,
    ) -> Controllers {
        let options = Options {
            batch_idle_duration: Duration::from_millis(200),
            batch_max_duration: Duration::from_secs(1),
            feature_gates,
            ..Options::default()
        };
        let seed = Seed::from_entropy();
        let metrics = Metrics::default();
        let layers = ApiLayers::new()
            .rate_limit(options.kube_client_qps, options.kube_client_burst)
            .retry(Retry::new(seed.derive("retries").rng()))
            .metrics(&metrics);
        let client = self.plane.controller_client(&layers);
        let interner = Arc::new(Interner::default());
        let catalogue = builtin_catalogue(&interner);
        let provider = Arc::new(KwokProvider::new(client.clone(), Arc::clone(&interner), catalogue));
        let manager = Manager::new(ManagerConfig {
            election,
            options,
            seed,
            metrics,
            tuning: Tuning {
                blocking: true,
                timeouts,
                ..Tuning::default()
            },
            ..ManagerConfig::alone(client, provider, interner, Clock::system())
        });
        let (context, shutdown) = (manager.context().clone(), CancellationToken::new());
        Controllers {
            context,
            manager: tokio::spawn(manager.run(shutdown.clone())),
            shutdown,
        }
    }

    /// Creates a pool of the class `default`; `spec` is merged over the least there must be.
    pub(crate) async fn pool(&self, name: &str, spec: Value) -> NodePool {
        create(&self.client, pool_manifest(name, spec)).await
    }

    /// Creates a Deployment whose pods want a node each; `template` is merged over that of its pods.
    pub(crate) async fn deployment(&self, name: &str, replicas: usize, template: Value) {
        let deployment = deployment_manifest(name, replicas, template);
        self.create_in::<Deployment>(deployment).await;
    }

    /// Creates an object in the namespace `default`.
    pub(crate) async fn create_in<K: NamespacedObject>(&self, object: Value) {
        create_in::<K>(&self.client, "default", object).await;
    }

    /// Merges into an object of the namespace `default`.
    pub(crate) async fn patch_in<K: NamespacedObject>(&self, name: &str, patch: Value) {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .expect("patched");
    }

    pub(crate) async fn scale(&self, name: &str, replicas: usize) {
        self.patch_in::<Deployment>(name, json!({"spec": {"replicas": replicas}}))
            .await;
    }

    pub(crate) async fn delete_claim(&self, name: &str) {
        let api: Api<NodeClaim> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    pub(crate) async fn look(&mut self) -> Picture {
        let picture = Picture {
            claims: list(&Api::all(self.client.clone())).await,
            nodes: list(&Api::all(self.client.clone())).await,
            pods: list(&Api::default_namespaced(self.client.clone())).await,
        };
        self.seen.claims.extend(picture.claims.iter().map(uid));
        self.seen.nodes.extend(picture.nodes.iter().map(uid));
        self.seen.pods.extend(picture.pods.iter().map(uid));
        picture
    }

    /// The messages of Events with a reason, without order.
    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let all: Vec<Event> = list(&Api::default_namespaced(self.client.clone())).await;
        let named = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        named.filter_map(|event| event.message).collect()
    }

    /// Looks until the answer is yes, at most `seconds`.
    pub(crate) async fn until(&mut self, what: &str, seconds: u64, yes: impl Fn(&Picture) -> bool) -> Picture {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let picture = self.look().await;
            if yes(&picture) {
                return picture;
            }
            self.plane.assert_running();
            assert!(
                Instant::now() < end,
                "not within {seconds} s: {what}\n{}\n{}",
                self.report(&picture).await,
                self.plane.tails()
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits for an Event with a reason and a message.
    pub(crate) async fn told(&mut self, reason: &str, message: &str, seconds: u64) {
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let events = self.events(reason).await;
            if events.iter().any(|told| told == message) {
                return;
            }
            assert!(
                Instant::now() < end,
                "not within {seconds} s: {reason} {message:?}, but {events:?}"
            );
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What there is, for failing tests.
    async fn report(&self, picture: &Picture) -> String {
        let mut lines = vec![picture.to_string()];
        let events: Vec<Event> = list(&Api::default_namespaced(self.client.clone())).await;
        for event in events {
            lines.push(format!("event {:?}: {:?}", event.reason, event.message));
        }
        lines.join("\n")
    }
}

/// Running controllers.
pub(crate) struct Controllers {
    pub(crate) context: Context,
    shutdown: CancellationToken,
    manager: JoinHandle<Result<(), ManagerError>>,
}

impl Controllers {
    /// Ends them as a crash does. The Nodes of launched machines are created all the same.
    pub(crate) async fn crash(self) {
        self.manager.abort();
        let _ = self.manager.await;
    }

    /// Ends them in good order.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.manager.await.expect("no panic").expect("no error");
    }
}

/// What there was at one time.
#[derive(Clone, Default)]
pub(crate) struct Picture {
    pub(crate) claims: Vec<NodeClaim>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
}

impl Picture {
    /// Pods that run and are to stay.
    pub(crate) fn running(&self) -> usize {
        let phase = |pod: &&Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        self.pods.iter().filter(phase).filter(|pod| stays(*pod)).count()
    }

    /// Whether there are `count` pods, claims and Nodes and no others; each claim ready and with its Node; none being deleted.
    pub(crate) fn is_settled(&self, count: usize) -> bool {
        let of_claims: BTreeSet<_> = self
            .claims
            .iter()
            .filter_map(|claim| claim.status.as_ref()?.provider_id.as_ref())
            .collect();
        let of_nodes: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|node| node.spec.as_ref()?.provider_id.as_ref())
            .collect();
        (self.claims.len(), self.nodes.len(), self.pods.len()) == (count, count, count)
            && self.running() == count
            && of_nodes.len() == count
            && of_claims == of_nodes
            && self.nodes.iter().all(stays)
            && self
                .claims
                .iter()
                .all(|claim| stays(claim) && claim.condition_is_true("Ready"))
    }

    /// Nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.nodes.is_empty() && self.pods.is_empty()
    }
}

impl std::fmt::Display for Picture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for claim in &self.claims {
            writeln!(f, "claim {}: {:?}", name(claim), claim.status)?;
        }
        for node in &self.nodes {
            writeln!(f, "node {}: {:?}", name(node), node.spec)?;
        }
        for pod in &self.pods {
            let status = pod.status.as_ref().map(|status| (&status.phase, &status.conditions));
            writeln!(f, "pod {} on {:?}: {status:?}", name(pod), node_of(pod))?;
        }
        Ok(())
    }
}

pub(crate) fn stays<K: Resource>(object: &K) -> bool {
    object.meta().deletion_timestamp.is_none()
}

pub(crate) fn name<K: Resource>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

pub(crate) fn uid<K: Resource>(object: &K) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

pub(crate) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Whether a Node is marked as one that is to go.
pub(crate) fn is_tainted(node: &Node) -> bool {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints
        .into_iter()
        .any(|taint| taint.key == "karpenter.sh/disrupted" && taint.effect == "NoSchedule")
}

/// A pool of the class `default`; `spec` is merged over the least there must be.
pub(crate) fn pool_manifest(name: &str, spec: Value) -> Value {
    let mut pool = json!({"metadata": {"name": name}, "spec": {
        "template": {"spec": {
            "requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "expireAfter": "Never",
        }},
        "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]},
    }});
    merge(&mut pool["spec"], spec);
    pool
}

/// A Deployment whose pods want a node each; `template` is merged over that of its pods.
pub(crate) fn deployment_manifest(name: &str, replicas: usize, template: Value) -> Value {
    let mut deployment = json!({"metadata": {"name": name}, "spec": {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {
            "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "1", "memory": "256Mi"}}}],
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": name}}}]}},
        }},
    }});
    merge(&mut deployment["spec"]["template"], template);
    deployment
}

/// All objects of a kind.
pub(crate) async fn list<K: Object>(api: &Api<K>) -> Vec<K> {
    api.list(&ListParams::default()).await.expect("listed").items
}

/// Installs our definitions and waits until the server serves them.
pub(crate) async fn install_definitions(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let definitions = kerf_api::crds(Provider::Kwok);
    for definition in &definitions {
        let object = serde_json::from_value(definition.value.clone()).expect("a definition");
        let created = api.create(&PostParams::default(), &object).await;
        created.expect(definition.name);
    }
    for definition in &definitions {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let object = api.get(definition.name).await.expect("there");
            let conditions = object.status.and_then(|status| status.conditions).unwrap_or_default();
            let is = |kind: &str| conditions.iter().any(|c| c.type_ == kind && c.status == "True");
            assert!(!is("NonStructuralSchema"), "{}: {conditions:?}", definition.name);
            if is("Established") {
                break;
            }
            assert!(Instant::now() < end, "{}: {conditions:?}", definition.name);
            tokio::time::sleep(LOOK).await;
        }
    }
}
