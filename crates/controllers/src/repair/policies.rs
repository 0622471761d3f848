//! The NodeRepairPolicies there are, followed as far as the cluster has the kind and lets it be read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::NodeRepairPolicy;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_runtime::watch::{Callback, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, Rng};
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::sync::Notify;

use super::policy::Policy;

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

    /// Follows the policies until shutdown; `changed` is called when any did.
    pub(super) async fn follow(self, client: Client, rng: Rng, changed: impl Fn() + Send, shutdown: CancellationToken) {
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
        let mut filling = Vec::new();
        let sink = Callback(move |event| {
            self.take(event, &mut filling);
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

    fn take(&self, event: WatchEvent<NodeRepairPolicy>, filling: &mut Vec<NodeRepairPolicy>) {
        let mut inner = self.lock();
        match event {
            WatchEvent::InitStart => filling.clear(),
            WatchEvent::Init(object) => filling.push(object),
            WatchEvent::InitDone => {
                inner.by_name = filling.drain(..).map(known).collect();
                inner.listed = true;
            }
            WatchEvent::Apply(object) => inner.by_name.extend([known(object)]),
            WatchEvent::Delete(object) => {
                inner
                    .by_name
                    .remove(object.metadata.name.as_deref().unwrap_or_default());
            }
            WatchEvent::Malformed { name, error, .. } => {
                tracing::error!(name, error, "NodeRepairPolicy cannot be read, keeping its last state");
                // In the middle of a list; elsewhere the next one begins by throwing this away.
                filling.extend(
                    inner
                        .by_name
                        .get(&name)
                        .map(|known| NodeRepairPolicy::clone(&known.object)),
                );
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
        let (policies, mut filling) = (Policies::default(), Vec::new());
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
        assert_eq!(list(vec![bad()]), [""; 0]);
        let both = ["bad", "good"].map(|name| WatchEvent::Init(policy(name)));
        assert_eq!(list(both.into()), ["bad", "good"]);
        assert_eq!(list(vec![bad()]), ["bad"]);
        assert_eq!(list(Vec::new()), [""; 0], "it is gone");
    }
}
