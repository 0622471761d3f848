//! What all actors share: the client, the clock, and a cache of every kind they read.

use crate::object::{controller_uid, is_active};
use crate::store::{Kind, Store, key_of};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSINode, StorageClass};
use kerf_runtime::client::{uid_of, uid_precondition};
use kerf_runtime::{CancellationToken, Clock, Controller, ObjectKey, Outcome, Queue, RateLimit, ReconcileError, Seed};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Pods by the uid of their controller.
const BY_CONTROLLER: usize = 0;
/// Pods by the node they are bound to.
const BY_NODE: usize = 1;

/// What all actors share.
pub(crate) struct ActorContext {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
    pub(crate) shutdown: CancellationToken,
    /// Cancelled once every cache is filled. No actor decides before. Waiting tasks wake in the order of their waiting.
    complete: CancellationToken,
    pub(crate) pods: Arc<Store<Pod>>,
    pub(crate) nodes: Arc<Store<Node>>,
    pub(crate) namespaces: Arc<Store<Namespace>>,
    pub(crate) deployments: Arc<Store<Deployment>>,
    pub(crate) replica_sets: Arc<Store<ReplicaSet>>,
    pub(crate) stateful_sets: Arc<Store<StatefulSet>>,
    pub(crate) daemon_sets: Arc<Store<DaemonSet>>,
    pub(crate) jobs: Arc<Store<Job>>,
    pub(crate) cron_jobs: Arc<Store<CronJob>>,
    pub(crate) budgets: Arc<Store<PodDisruptionBudget>>,
    pub(crate) claims: Arc<Store<PersistentVolumeClaim>>,
    pub(crate) volumes: Arc<Store<PersistentVolume>>,
    pub(crate) classes: Arc<Store<StorageClass>>,
    pub(crate) csi_nodes: Arc<Store<CSINode>>,
}

impl ActorContext {
    pub(crate) fn new(client: Client, clock: Clock, seed: Seed, shutdown: CancellationToken) -> Self {
        let node_of = |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect();
        Self {
            client,
            clock,
            seed,
            shutdown,
            complete: CancellationToken::new(),
            pods: Store::new(&[|pod| controller_uid(pod).into_iter().collect(), node_of]),
            nodes: Store::new(&[]),
            namespaces: Store::new(&[]),
            deployments: Store::new(&[]),
            replica_sets: Store::new(&[|set| controller_uid(set).into_iter().collect()]),
            stateful_sets: Store::new(&[]),
            daemon_sets: Store::new(&[]),
            jobs: Store::new(&[]),
            cron_jobs: Store::new(&[]),
            budgets: Store::new(&[]),
            claims: Store::new(&[]),
            volumes: Store::new(&[]),
            classes: Store::new(&[]),
            csi_nodes: Store::new(&[]),
        }
    }

    /// Starts the watches and returns once every cache is filled.
    pub(crate) async fn follow(&self, tasks: &mut JoinSet<()>) {
        self.follow_one(tasks, &self.namespaces);
        self.follow_one(tasks, &self.nodes);
        self.follow_one(tasks, &self.pods);
        self.follow_one(tasks, &self.deployments);
        self.follow_one(tasks, &self.replica_sets);
        self.follow_one(tasks, &self.stateful_sets);
        self.follow_one(tasks, &self.daemon_sets);
        self.follow_one(tasks, &self.jobs);
        self.follow_one(tasks, &self.cron_jobs);
        self.follow_one(tasks, &self.budgets);
        self.follow_one(tasks, &self.claims);
        self.follow_one(tasks, &self.volumes);
        self.follow_one(tasks, &self.classes);
        self.follow_one(tasks, &self.csi_nodes);
        self.namespaces.synced().await;
        self.nodes.synced().await;
        self.pods.synced().await;
        self.deployments.synced().await;
        self.replica_sets.synced().await;
        self.stateful_sets.synced().await;
        self.daemon_sets.synced().await;
        self.jobs.synced().await;
        self.cron_jobs.synced().await;
        self.budgets.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        self.csi_nodes.synced().await;
        self.complete.cancel();
    }

    /// Waits until every cache is filled.
    pub(crate) async fn complete(&self) {
        self.complete.cancelled().await;
    }

    fn follow_one<K: Kind>(&self, tasks: &mut JoinSet<()>, store: &Arc<Store<K>>) {
        let rng = self.seed.derive(&K::kind(&())).rng();
        spawn(
            tasks,
            Box::pin(Arc::clone(store).follow(self.client.clone(), rng, self.shutdown.clone())),
        );
    }

    /// Pods an object controls, finished ones included, by name.
    pub(crate) fn controlled_pods(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.pods.by_index(BY_CONTROLLER, uid)
    }

    /// Replica sets an object controls.
    pub(crate) fn controlled_sets(&self, uid: &str) -> Vec<Arc<ReplicaSet>> {
        self.replica_sets.by_index(BY_CONTROLLER, uid)
    }

    /// Pods bound to a node.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.by_index(BY_NODE, node)
    }

    pub(crate) fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    pub(crate) async fn create<K>(&self, store: &Store<K>, object: &K) -> Result<(), kube::Error>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope> + Serialize,
    {
        let namespace = object.meta().namespace.as_deref().unwrap_or("default");
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        store.record_write(api.create(&PostParams::default(), object).await?);
        Ok(())
    }

    pub(crate) async fn patch<K>(&self, store: &Store<K>, key: &ObjectKey, patch: &Value) -> Result<(), kube::Error>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        store.record_write(
            api.patch(&key.name, &PatchParams::default(), &Patch::Merge(patch))
                .await?,
        );
        Ok(())
    }

    pub(crate) async fn patch_status<K>(
        &self,
        store: &Store<K>,
        key: &ObjectKey,
        patch: &Value,
    ) -> Result<(), kube::Error>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::default();
        store.record_write(api.patch_status(&key.name, &params, &Patch::Merge(patch)).await?);
        Ok(())
    }

    /// Writes the status of an object if that changes the `known` one. An object that was deleted meanwhile is no error.
    pub(crate) async fn update_status<K>(
        &self,
        store: &Store<K>,
        object: &K,
        known: &impl Serialize,
        status: Value,
    ) -> Result<(), kube::Error>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        if !patch_changes(&serde_json::to_value(known).unwrap_or_default(), &status) {
            return Ok(());
        }
        let patch = serde_json::json!({"status": status});
        match self.patch_status(store, &key_of(object), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            other => other,
        }
    }

    /// Changes parts of a pod's status; conditions are merged by type.
    pub(crate) async fn patch_pod_status(&self, key: &ObjectKey, patch: Value) -> Result<(), kube::Error> {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = PatchParams::default();
        self.pods
            .record_write(api.patch_status(&key.name, &params, &Patch::Strategic(patch)).await?);
        Ok(())
    }

    /// Deletes the object with its uid as precondition. An object that is already deleted is no error.
    pub(crate) async fn delete<K>(&self, store: &Store<K>, object: &K, grace_s: Option<u32>) -> Result<(), kube::Error>
    where
        K: Kind + Resource<Scope = NamespaceResourceScope>,
    {
        let key = key_of(object);
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let uid = uid_of(object)?;
        let params = DeleteParams {
            grace_period_seconds: grace_s,
            propagation_policy: Some(PropagationPolicy::Background),
            ..uid_precondition(uid)
        };
        match api.delete(&key.name, &params).await {
            Ok(either) => {
                // The API returns a pod both when it is removed and when it is only marked as deleting; one that nothing holds is removed.
                if let Some(marked) = either.left().filter(|marked| is_held(marked)) {
                    store.record_write(marked);
                } else {
                    store.record_delete(&key, uid);
                }
                Ok(())
            }
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Runs a reconciler over the keys of a queue, one at a time, until shutdown.
    pub(crate) fn run<F, Fut>(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        name: &str,
        queue: Queue<ObjectKey>,
        reconcile: F,
    ) where
        F: Fn(Arc<Self>, ObjectKey) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Outcome, ReconcileError>> + Send + 'static,
    {
        let context = Arc::clone(self);
        let controller = Controller::new(name).seed(self.seed);
        let shutdown = self.shutdown.clone();
        let run = async move {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = context.complete() => {}
            }
            controller.run(queue, context, reconcile, shutdown).await;
        };
        spawn(tasks, Box::pin(run));
    }
}

/// Starts a task. Boxed tasks of all types share the compiled code.
fn spawn(tasks: &mut JoinSet<()>, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
    tasks.spawn(task);
}

/// Whether a finalizer or a grace period holds the deleted object.
fn is_held<K: Resource>(object: &K) -> bool {
    let meta = object.meta();
    let finalizers = meta
        .finalizers
        .as_ref()
        .is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && (finalizers || meta.deletion_grace_period_seconds.is_some_and(|s| s > 0))
}

/// Changes of many pods within this time cause one reconcile of their controller.
pub(crate) const COALESCE: Duration = Duration::from_millis(20);

/// A queue that retries soon after a failure: after 20 ms, doubling up to 30 s.
pub(crate) fn queue() -> Queue<ObjectKey> {
    Queue::new(RateLimit::exponential(
        Duration::from_millis(20),
        Duration::from_secs(30),
    ))
}

/// Feeds the keys of a kind's own objects into a queue, and those of the pods' controllers of that kind.
pub(crate) fn enqueue_own_and_pods<K: Kind>(queue: &Queue<ObjectKey>, own: &Store<K>, pods: &Store<Pod>) {
    let mine = queue.clone();
    own.listen(move |change| mine.add(change.key.clone()));
    let mine = queue.clone();
    pods.listen(move |change| {
        for pod in [change.old, change.new].into_iter().flatten() {
            if let Some(owner) = crate::object::controller(pod).filter(|owner| owner.kind == K::kind(&())) {
                mine.add_after(ObjectKey::new(&*change.key.namespace, &*owner.name), COALESCE);
            }
        }
    });
}

/// Feeds the keys of a kind's own objects into a queue, and those of the owners of objects that such objects control.
pub(crate) fn enqueue_own_and_controlled<K: Kind, C: Kind>(
    queue: &Queue<ObjectKey>,
    own: &Store<K>,
    controlled: &Store<C>,
) {
    let mine = queue.clone();
    own.listen(move |change| mine.add(change.key.clone()));
    let mine = queue.clone();
    controlled.listen(move |change| {
        let owner = change.last().and_then(crate::object::controller);
        if let Some(owner) = owner.filter(|owner| owner.kind == K::kind(&())) {
            mine.add(ObjectKey::new(&*change.key.namespace, &*owner.name));
        }
    });
}

/// The pods that are neither finished nor being deleted.
pub(crate) fn active(pods: Vec<Arc<Pod>>) -> Vec<Arc<Pod>> {
    pods.into_iter().filter(|pod| is_active(pod)).collect()
}

/// Whether a merge patch would change the object. Absent and null are equal.
pub(crate) fn patch_changes(known: &Value, patch: &Value) -> bool {
    match patch {
        Value::Object(fields) => fields
            .iter()
            .any(|(key, value)| patch_changes(known.get(key).unwrap_or(&Value::Null), value)),
        other => known != other,
    }
}
