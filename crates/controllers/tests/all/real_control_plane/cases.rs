//! Several cases at once on one control plane: each has its own namespace and pool, and does not see the others.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Event, Namespace, Node};
use kerf_api::{Conditioned, NodeClaim, NodePool, labels};
use kerf_chaos::{ClusterObject, NamespacedObject};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::merge::merge;
use crate::objects::{create, create_in};
use crate::real_control_plane::harness::{
    Cluster, Picture, Seen, deployment_manifest, is_tainted, list, name, pool_manifest, stays, uid,
};

/// The time between two observations.
const LOOK: Duration = Duration::from_millis(100);
/// What a claim without a pool says whose it is with.
const CASE: &str = "example.com/case";

/// What happens in a case.
pub(crate) type Story = Box<dyn FnOnce(Case) -> BoxFuture<'static, ()> + Send>;

/// A story under a name, which is that of its pool and its namespace.
pub(crate) fn case<F>(name: &'static str, story: impl FnOnce(Case) -> F + Send + 'static) -> (&'static str, Story)
where
    F: Future<Output = ()> + Send + 'static,
{
    (name, Box::new(|case| story(case).boxed()))
}

/// Plays all stories at once, to the end of the last, and fails if one of them failed.
pub(crate) async fn play(cluster: &Cluster, stories: Vec<(&'static str, Story)>) {
    let (sender, view) = watch::channel(Arc::new(Picture::default()));
    let onlooker = tokio::spawn(look_on(cluster.client.clone(), sender));
    let mut running = JoinSet::new();
    for (name, story) in stories {
        let space = json!({"metadata": {"name": name}});
        create::<Namespace>(&cluster.client, space).await;
        let case = Case {
            name,
            client: cluster.client.clone(),
            view: view.clone(),
            seen: Mutex::default(),
        };
        running.spawn(async move {
            let start = Instant::now();
            let end = tokio::spawn(story(case)).await;
            println!("{name}: {:.1} s", start.elapsed().as_secs_f64());
            (name, end.is_ok())
        });
    }
    let ended = running.join_all().await;
    onlooker.abort();
    let failed: Vec<&str> = ended.iter().filter(|(_, well)| !well).map(|(name, _)| *name).collect();
    assert!(failed.is_empty(), "failed: {failed:?}");
}

/// Publishes what there is, again and again.
async fn look_on(client: Client, sender: watch::Sender<Arc<Picture>>) {
    loop {
        let picture = Picture {
            claims: list(&Api::all(client.clone())).await,
            nodes: list(&Api::all(client.clone())).await,
            pods: list(&Api::all(client.clone())).await,
        };
        if sender.send(Arc::new(picture)).is_err() {
            return;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// One case's part of the cluster.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) client: Client,
    view: watch::Receiver<Arc<Picture>>,
    seen: Mutex<Seen>,
}

impl Case {
    /// Creates the case's pool, of small Linux machines; `spec` is merged over the least there must be.
    pub(crate) async fn pool(&self, spec: Value) {
        self.other_pool("", spec).await;
    }

    /// Creates a pool whose name is the case's and an ending.
    pub(crate) async fn other_pool(&self, ending: &str, spec: Value) {
        let small = json!({"template": {"spec": {"requirements": [
            {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
            {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["32"]}]}}});
        let mut manifest = pool_manifest(&format!("{}{ending}", self.name), small);
        merge(&mut manifest["spec"], spec);
        create::<NodePool>(&self.client, manifest).await;
    }

    /// Merges into the case's pool.
    pub(crate) async fn patch_pool(&self, patch: Value) {
        self.patch::<NodePool>(self.name, patch).await;
    }

    /// Makes every claim of the pool drift.
    pub(crate) async fn drift(&self) {
        let template = json!({"metadata": {"annotations": {"example.com/generation": "2"}}});
        self.patch_pool(json!({"spec": {"template": template}})).await;
    }

    /// Creates a Deployment whose pods want a node of the pool each; `template` is merged over that of its pods.
    pub(crate) async fn deployment(&self, name: &str, replicas: usize, template: Value) {
        let here = json!({"spec": {"nodeSelector": {labels::NODE_POOL: self.name}}});
        let mut manifest = deployment_manifest(name, replicas, here);
        merge(&mut manifest["spec"]["template"], template);
        self.create_in::<Deployment>(manifest).await;
    }

    pub(crate) async fn scale(&self, name: &str, replicas: usize) {
        let patch = json!({"spec": {"replicas": replicas}});
        self.patch_in::<Deployment>(name, patch).await;
    }

    /// Creates an object in the case's namespace.
    pub(crate) async fn create_in<K: NamespacedObject>(&self, object: Value) {
        create_in::<K>(&self.client, self.name, object).await;
    }

    /// Merges into an object of the case's namespace.
    pub(crate) async fn patch_in<K: NamespacedObject>(&self, name: &str, patch: Value) {
        let api: Api<K> = Api::namespaced(self.client.clone(), self.name);
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("patched");
    }

    /// Merges into a cluster-wide object.
    pub(crate) async fn patch<K: ClusterObject>(&self, name: &str, patch: Value) {
        let api: Api<K> = Api::all(self.client.clone());
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.expect("patched");
    }

    /// Merges into the status of a cluster-wide object.
    pub(crate) async fn patch_status<K: ClusterObject>(&self, name: &str, patch: Value) {
        let api: Api<K> = Api::all(self.client.clone());
        let patched = api
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.expect("patched");
    }

    /// Deletes a cluster-wide object.
    pub(crate) async fn delete<K: ClusterObject>(&self, name: &str) {
        let api: Api<K> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Creates a claim without a pool for a machine of `types`; `spec` is merged over the least there must be.
    pub(crate) async fn claim(&self, types: &[&str], spec: Value) {
        let mut claim = json!({"metadata": {"name": self.name, "labels": {CASE: self.name}}, "spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}]}});
        merge(&mut claim, spec);
        create::<NodeClaim>(&self.client, claim).await;
    }

    /// Adds or takes away a finalizer of ours on Nodes; one that is gone is left alone.
    pub(crate) async fn hold(&self, nodes: &[Node], held: bool) {
        const FINALIZER: &str = "testing/finalizer";
        let api: Api<Node> = Api::all(self.client.clone());
        for node in nodes {
            loop {
                let Some(mut fresh) = api.get_opt(&name(node)).await.expect("an answer") else {
                    break;
                };
                let finalizers = fresh.finalizers_mut();
                finalizers.retain(|finalizer| finalizer != FINALIZER);
                if held {
                    finalizers.push(FINALIZER.to_owned());
                }
                // Others write the Node too.
                if api.replace(&name(node), &PostParams::default(), &fresh).await.is_ok() {
                    break;
                }
            }
        }
    }

    /// What of a picture is the case's.
    fn own(&self, all: &Picture) -> Picture {
        let other = format!("{}-", self.name);
        let is_own = |labels: Option<&std::collections::BTreeMap<String, String>>| {
            labels.is_some_and(|labels| {
                let pool = labels.get(labels::NODE_POOL);
                let of_pool = pool.is_some_and(|pool| pool == self.name || pool.starts_with(&other));
                of_pool || labels.get(CASE).is_some_and(|case| case == self.name)
            })
        };
        let own = Picture {
            claims: all
                .claims
                .iter()
                .filter(|it| is_own(it.metadata.labels.as_ref()))
                .cloned()
                .collect(),
            nodes: all
                .nodes
                .iter()
                .filter(|it| is_own(it.metadata.labels.as_ref()))
                .cloned()
                .collect(),
            pods: all
                .pods
                .iter()
                .filter(|it| it.metadata.namespace.as_deref() == Some(self.name))
                .cloned()
                .collect(),
        };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.claims.extend(own.claims.iter().map(uid));
        seen.nodes.extend(own.nodes.iter().map(uid));
        seen.pods.extend(own.pods.iter().map(uid));
        own
    }

    /// How many claims there have ever been.
    pub(crate) fn claims_seen(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).claims.len()
    }

    /// How many pods there have ever been.
    pub(crate) fn pods_seen(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).pods.len()
    }

    /// Looks until the answer is yes, at most `seconds`.
    pub(crate) async fn until(&self, what: &str, seconds: u64, mut yes: impl FnMut(&Picture) -> bool) -> Picture {
        let mut view = self.fresh().await;
        let end = Instant::now() + Duration::from_secs(seconds);
        loop {
            let picture = self.next(&mut view).await;
            if yes(&picture) {
                return picture;
            }
            let late = Instant::now() >= end;
            let events = if late { self.events().await } else { String::new() };
            assert!(
                !late,
                "{}: not within {seconds} s: {what}\n{picture}\n{events}",
                self.name
            );
        }
    }

    /// Judges all there is to see during some seconds.
    pub(crate) async fn throughout(&self, seconds: u64, mut judge: impl FnMut(&Picture)) {
        let mut view = self.fresh().await;
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            judge(&self.next(&mut view).await);
        }
    }

    /// The observer's view from now on: its current observation may be older than the case's last request.
    async fn fresh(&self) -> watch::Receiver<Arc<Picture>> {
        let mut view = self.view.clone();
        view.changed().await.expect("an onlooker");
        view
    }

    async fn next(&self, view: &mut watch::Receiver<Arc<Picture>>) -> Picture {
        view.changed().await.expect("an onlooker");
        let all = Arc::clone(&view.borrow_and_update());
        self.own(&all)
    }

    async fn events(&self) -> String {
        let mut lines = Vec::new();
        for namespace in [self.name, "default"] {
            let events: Vec<Event> = list(&Api::namespaced(self.client.clone(), namespace)).await;
            let told = |event: Event| {
                format!(
                    "event {:?} {:?}: {:?}",
                    event.involved_object.name, event.reason, event.message
                )
            };
            lines.extend(events.into_iter().map(told));
        }
        lines.join("\n")
    }
}

/// Nodes that are on their way out.
pub(crate) fn going(picture: &Picture) -> usize {
    picture
        .nodes
        .iter()
        .filter(|node| is_tainted(node) || !stays(*node))
        .count()
}

/// Whether all claims of one picture are gone in another.
pub(crate) fn replaced(before: &Picture, after: &Picture) -> bool {
    let old = |claim: &NodeClaim| before.claims.iter().any(|other| uid(other) == uid(claim));
    !after.claims.iter().any(old)
}

/// Whether all claims of one picture are in another and stay.
pub(crate) fn kept(before: &Picture, after: &Picture) -> bool {
    let mut old = before.claims.iter();
    old.all(|claim| {
        after
            .claims
            .iter()
            .any(|other| uid(other) == uid(claim) && stays(other))
    })
}

/// Whether there are `count` claims and nodes, all ready and to stay.
pub(crate) fn has(picture: &Picture, count: usize) -> bool {
    let well = |claim: &NodeClaim| stays(claim) && claim.condition_is_true("Ready");
    (picture.claims.len(), picture.nodes.len()) == (count, count)
        && picture.claims.iter().all(well)
        && picture.nodes.iter().all(stays)
}

pub(crate) fn all_drifted(picture: &Picture) -> bool {
    picture.claims.iter().all(|claim| claim.condition_is_true("Drifted"))
}
