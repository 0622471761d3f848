//! The NodeRepairPolicies there are, followed as far as the cluster has the kind and lets it be read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::NodeRepairPolicy;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_runtime::watch::{Callback, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, Rng};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use tokio::sync::Notify;

use super::policy::Policy;
use crate::cluster::{Cluster, Unreadable};

/// How soon it is looked again for a kind that is not there or may not be read.
const ABSENT: Duration = Duration::from_secs(60);
/// The same when the API server did not answer.
const UNANSWERED: Duration = Duration::from_secs(1);

/// A policy as it was written and as it is read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) object: Arc<NodeRepairPolicy>,
    pub(super) policy: Arc<Policy>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether it is known which policies there are.
    listed: bool,
    warned: bool,
    by_name: BTreeMap<String, Known>,
    unreadable: BTreeMap<String, Unreadable>,
}

/// A list that is not complete yet.
#[derive(Debug, Default)]
struct Filling {
    readable: Vec<NodeRepairPolicy>,
    unreadable: BTreeMap<String, Unreadable>,
}

/// All policies; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
}

impl Policies {
    /// Waits until a policy changes. For one listener; what happened before it listens is told as well.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policies by name; `None` while nobody knows. Where the cluster has no such kind, there are none.
    pub(super) fn all(&self) -> Option<Vec<Arc<Policy>>> {
        let inner = self.lock();
        let policies = inner.by_name.values().map(|known| Arc::clone(&known.policy));
        inner.listed.then(|| policies.collect())
    }

    /// The names of all policies.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().by_name.keys().cloned().collect()
    }

    /// One policy.
    pub(super) fn get(&self, name: &str) -> Option<Known> {
        self.lock().by_name.get(name).cloned()
    }

    /// Those nobody can read.
    fn unreadable(&self) -> Vec<Unreadable> {
        self.lock().unreadable.values().cloned().collect()
    }

    /// Follows the policies until shutdown; `changed` is called when any did. The cluster is told which cannot be read.
    pub(super) async fn follow(
        self,
        client: Client,
        cluster: Cluster,
        rng: Rng,
        changed: impl Fn() + Send,
        shutdown: CancellationToken,
    ) {
        while let Some(pause) = self.missing(&client).await {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
            }
        }
        let options = WatchOptions {
            // Nothing else waits for it.
            first_sync: None,
            ..WatchOptions::default()
        };
        let mut filling = Filling::default();
        let sink = Callback(move |event| {
            self.take(event, &mut filling);
            cluster.set_unreadable(&NodeRepairPolicy::kind(&()), self.unreadable());
            self.changed.notify_one();
            changed();
        });
        if let Err(error) = watch(Api::all(client), options, rng, sink, shutdown).await {
            tracing::error!(error = %error, "following NodeRepairPolicies ended");
        }
    }

    /// How long to wait because the kind cannot be read now; `None` when it can.
    async fn missing(&self, client: &Client) -> Option<Duration> {
        let api: Api<NodeRepairPolicy> = Api::all(client.clone());
        let error = api.list(&ListParams::default().limit(1)).await.err()?;
        let kind = ApiErrorKind::of(&error);
        if !matches!(kind, ApiErrorKind::NotFound | ApiErrorKind::Forbidden) {
            return Some(UNANSWERED);
        }
        let mut inner = self.lock();
        inner.listed = true;
        if !std::mem::replace(&mut inner.warned, true) {
            tracing::warn!(
                error = describe(&error),
                "NodeRepairPolicies cannot be read, nodes are repaired as the provider says only; install the CRD and its permissions to use them"
            );
        }
        Some(ABSENT)
    }

    fn take(&self, event: WatchEvent<NodeRepairPolicy>, filling: &mut Filling) {
        let mut inner = self.lock();
        match event {
            WatchEvent::InitStart => *filling = Filling::default(),
            WatchEvent::Init(object) => filling.readable.push(object),
            WatchEvent::InitDone => {
                let Filling { readable, unreadable } = std::mem::take(filling);
                inner.by_name = readable.into_iter().map(known).collect();
                inner.unreadable = unreadable;
                inner.listed = true;
            }
            WatchEvent::Apply(object) => {
                let (name, known) = known(object);
                inner.unreadable.remove(&name);
                inner.by_name.insert(name, known);
            }
            WatchEvent::Delete(object) => {
                let name = object.metadata.name.as_deref().unwrap_or_default();
                inner.unreadable.remove(name);
                inner.by_name.remove(name);
            }
            WatchEvent::Malformed {
                namespace,
                name,
                uid,
                error,
            } => {
                let unreadable = Unreadable::note::<NodeRepairPolicy>(namespace, name.clone(), uid, error);
                let before = inner.by_name.get(&name);
                // In the middle of a list; elsewhere the next one begins by throwing this away.
                filling
                    .readable
                    .extend(before.map(|known| NodeRepairPolicy::clone(&known.object)));
                filling.unreadable.insert(name.clone(), unreadable.clone());
                inner.unreadable.insert(name, unreadable);
            }
        }
    }
}

fn known(object: NodeRepairPolicy) -> (String, Known) {
    let policy = Arc::new(Policy::read(&object));
    let name = object.metadata.name.clone().unwrap_or_default();
    let object = Arc::new(object);
    (name, Known { object, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_nobody_can_read_stays_as_it_was_over_lists() {
        let policy = |name: &str| -> NodeRepairPolicy {
            let condition = serde_json::json!({"type": "Ready", "status": "False", "toleration": "10m"});
            let spec = serde_json::json!({"unhealthyConditions": [condition]});
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "spec": spec})).expect("a policy")
        };
        let (policies, mut filling) = (Policies::default(), Filling::default());
        let mut list = |objects: Vec<WatchEvent<NodeRepairPolicy>>| {
            let whole = std::iter::once(WatchEvent::InitStart).chain(objects);
            for event in whole.chain([WatchEvent::InitDone]) {
                policies.take(event, &mut filling);
            }
            policies.names()
        };
        let bad = || WatchEvent::Malformed {
            namespace: String::new(),
            name: "bad".to_owned(),
            uid: String::new(),
            error: "spec: what is this?".to_owned(),
        };
        let told = || {
            let all = policies.unreadable().into_iter();
            all.map(|one| format!("{} {}: {}", one.object.kind, one.object.name, one.error))
                .collect::<Vec<_>>()
        };
        let complaint = ["NodeRepairPolicy bad: spec: what is this?"];
        assert_eq!(list(vec![bad()]), [""; 0]);
        assert_eq!(told(), complaint);
        let both = ["bad", "good"].map(|name| WatchEvent::Init(policy(name)));
        assert_eq!(list(both.into()), ["bad", "good"]);
        assert_eq!(told(), [""; 0]);
        assert_eq!(list(vec![bad()]), ["bad"]);
        assert_eq!(told(), complaint);
        assert_eq!(list(Vec::new()), [""; 0], "it is gone");
        assert_eq!(told(), [""; 0]);
        // Between lists.
        for (event, expected) in [
            (bad(), &complaint[..]),
            (WatchEvent::Apply(policy("bad")), &[]),
            (bad(), &complaint),
            (WatchEvent::Delete(policy("bad")), &[]),
        ] {
            policies.take(event, &mut Filling::default());
            assert_eq!(told(), expected);
        }
    }
}
