//! Watches NodeRepairPolicies, if the cluster has the kind and permits to read it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kerf_api::NodeRepairPolicy;
use kerf_lifecycle::repair::Policy;
use kerf_runtime::client::{ApiErrorKind, describe};
use kerf_runtime::watch::{Callback, WatchEvent, WatchOptions, watch};
use kerf_runtime::{CancellationToken, Readable, Rng};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use tokio::sync::Notify;

use super::policy;
use crate::cluster::{Cluster, Unreadable, Unreadables};

/// The time until a missing or forbidden kind is looked for again.
const ABSENT: Duration = Duration::from_secs(60);
/// The same when the API server did not answer.
const UNANSWERED: Duration = Duration::from_secs(1);

/// A policy: the API object and its parsed form.
#[derive(Clone, Debug)]
pub(super) struct StoredPolicy {
    pub(super) object: Arc<NodeRepairPolicy>,
    pub(super) policy: Arc<Policy>,
}

/// All policies.
#[derive(Debug)]
pub(super) struct Followed {
    /// The policies by name.
    pub(super) policies: Vec<Arc<Policy>>,
    /// The name of a policy that could never be read: it may be about any node and any condition.
    pub(super) unread: Option<String>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Whether the policies have been listed.
    listed: bool,
    warned: bool,
    by_name: BTreeMap<String, StoredPolicy>,
    /// A list that is not complete yet.
    filling: BTreeMap<String, StoredPolicy>,
    unreadable: Unreadables,
}

impl Inner {
    /// The first policy that cannot be read and has no earlier state.
    fn unread(&self) -> Option<String> {
        let all = self.unreadable.all();
        let is_unknown = |one: &&Unreadable| one.name().is_none_or(|name| !self.by_name.contains_key(name));
        let unread = all.iter().find(is_unknown)?;
        Some(unread.name().unwrap_or("(without a name)").to_owned())
    }
}

/// All policies; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Policies {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
}

impl Policies {
    /// Waits until a policy changes. For one listener; changes before it listens count as well.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All policies; `None` before the first list. Without the kind there are none.
    pub(super) fn all(&self) -> Option<Followed> {
        let inner = self.lock();
        let policies = inner.by_name.values().map(|known| Arc::clone(&known.policy));
        inner.listed.then(|| Followed {
            policies: policies.collect(),
            unread: inner.unread(),
        })
    }

    /// The names of all policies.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().by_name.keys().cloned().collect()
    }

    /// One policy.
    pub(super) fn get(&self, name: &str) -> Option<StoredPolicy> {
        self.lock().by_name.get(name).cloned()
    }

    /// Watches the policies until shutdown and calls `changed` after every change. Unreadable ones are reported to the cluster.
    pub(super) async fn follow(
        self,
        client: Client,
        cluster: Cluster,
        rng: Rng,
        changed: impl Fn() + Send + Sync,
        shutdown: CancellationToken,
    ) {
        let tell = |unreadable| {
            cluster.set_unreadable(&NodeRepairPolicy::kind(&()), unreadable);
            self.changed.notify_one();
            changed();
        };
        loop {
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
                until_absent: true,
                ..WatchOptions::default()
            };
            let sink = Callback(|event| tell(self.take(event)));
            let watched = watch(client.clone(), options, rng.clone(), sink, shutdown.clone()).await;
            let Err(error) = watched else { return };
            tracing::warn!(error = %error, "NodeRepairPolicies are no longer watched");
            self.forget();
            tell(Vec::new());
        }
    }

    /// Forgets all policies, since the kind is gone.
    fn forget(&self) {
        let mut inner = self.lock();
        inner.by_name.clear();
        inner.unreadable = Unreadables::default();
    }

    /// How long to wait because the kind cannot be read now; `None` when it can.
    async fn missing(&self, client: &Client) -> Option<Duration> {
        // An unreadable policy proves that the kind exists.
        let api: Api<Readable<NodeRepairPolicy>> = Api::all(client.clone());
        let error = api.list(&ListParams::default().limit(1)).await.err()?;
        let kind = ApiErrorKind::of(&error);
        if !matches!(kind, ApiErrorKind::NotFound | ApiErrorKind::Forbidden) {
            return Some(UNANSWERED);
        }
        let mut inner = self.lock();
        inner.listed = true;
        if !std::mem::replace(&mut inner.warned, true) {
            let error = describe(&error);
            if kind == ApiErrorKind::Forbidden {
                // The client's warning names the rule to add.
                tracing::info!(
                    error,
                    "NodeRepairPolicies may not be read, nodes are repaired as the provider says only"
                );
            } else {
                tracing::warn!(
                    error,
                    "NodeRepairPolicies cannot be read, nodes are repaired as the provider says only; install their CRD to use them"
                );
            }
        }
        Some(ABSENT)
    }

    /// Applies a watch event. Returns the policies that cannot be read.
    fn take(&self, event: WatchEvent<NodeRepairPolicy>) -> Vec<Unreadable> {
        let mut guard = self.lock();
        let inner = &mut *guard;
        match event {
            WatchEvent::InitStart => {
                inner.filling.clear();
                inner.unreadable.begin();
            }
            WatchEvent::Init(object) => inner.filling.extend(known(object)),
            WatchEvent::InitDone => {
                inner.unreadable.complete();
                let before = std::mem::replace(&mut inner.by_name, std::mem::take(&mut inner.filling));
                let kept = inner.unreadable.keys();
                let kept = before
                    .into_iter()
                    .filter(|(name, _)| kept.contains(&(String::new(), name.clone())));
                inner.by_name.extend(kept);
                inner.listed = true;
            }
            WatchEvent::Apply(object) => {
                inner.unreadable.forget(&object);
                inner.by_name.extend(known(object));
            }
            WatchEvent::Delete(object) => {
                inner.unreadable.forget(&object);
                if let Some(name) = &object.metadata.name {
                    inner.by_name.remove(name);
                }
            }
            WatchEvent::Malformed(found) => inner.unreadable.note::<NodeRepairPolicy>(*found),
        }
        inner.unreadable.all()
    }
}

/// A policy by its name; `None` without one.
fn known(object: NodeRepairPolicy) -> Option<(String, StoredPolicy)> {
    let policy = Arc::new(policy::read(&object)?);
    let name = object.metadata.name.clone()?;
    let object = Arc::new(object);
    Some((name, StoredPolicy { object, policy }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::found;

    #[test]
    fn a_policy_nobody_can_read_stays_as_it_was_over_lists() {
        let policy = |name: &str| -> NodeRepairPolicy {
            let condition = serde_json::json!({"type": "Ready", "status": "False", "toleration": "10m"});
            let spec = serde_json::json!({"unhealthyConditions": [condition]});
            serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "spec": spec})).expect("a policy")
        };
        let policies = Policies::default();
        let list = |objects: Vec<WatchEvent<NodeRepairPolicy>>| {
            let whole = std::iter::once(WatchEvent::InitStart).chain(objects);
            for event in whole.chain([WatchEvent::InitDone]) {
                policies.take(event);
            }
            policies.names()
        };
        let bad = || WatchEvent::Malformed(Box::new(found("bad")));
        let told = || {
            let all = policies.lock().unreadable.all().into_iter();
            let named = |one: Unreadable| format!("{} {}: {}", one.kind(), one.name().unwrap_or("-"), one.error());
            all.map(named).collect::<Vec<_>>()
        };
        let unread = || policies.all().expect("they are listed").unread;
        let complaint = ["NodeRepairPolicy bad: no spec"];
        assert_eq!(list(vec![bad()]), [""; 0]);
        assert_eq!(told(), complaint);
        assert_eq!(unread().as_deref(), Some("bad"));
        let both = ["bad", "good"].map(|name| WatchEvent::Init(policy(name)));
        assert_eq!(list(both.into()), ["bad", "good"]);
        assert_eq!(told(), [""; 0]);
        assert_eq!(list(vec![bad()]), ["bad"]);
        assert_eq!(told(), complaint);
        assert_eq!(unread(), None, "its last state is known");
        assert_eq!(list(Vec::new()), [""; 0], "it is gone");
        assert_eq!(told(), [""; 0]);
        let mut nameless = found("bad");
        nameless.metadata.name = None;
        list(vec![WatchEvent::Malformed(Box::new(nameless))]);
        assert_eq!(unread().as_deref(), Some("(without a name)"), "it may be any");
        list(Vec::new());
        // Between lists.
        for (event, expected) in [
            (bad(), &complaint[..]),
            (WatchEvent::Apply(policy("bad")), &[]),
            (bad(), &complaint),
            (WatchEvent::Delete(policy("bad")), &[]),
        ] {
            policies.take(event);
            assert_eq!(told(), expected);
        }
    }
}
