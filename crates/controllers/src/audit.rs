//! Looking after the watches: a watch that silently lost events leaves the mirror wrong until the next list, and everything that is decided
//! with it. So every watched kind is compared with a fresh list of metadata at short intervals, and is listed anew when it stays wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use kerf_runtime::{Rng, SyncGate};
use kerf_state::{Kind, Mirrored};
use kube::api::ListParams;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use crate::cluster::{Cluster, Discrepancy, Listed, compare, listed};

/// How often a kind is compared: an event that was lost is found within a minute.
const EVERY: Duration = Duration::from_secs(40);
/// How often while its lists are not trusted.
const EVERY_IN_DOUBT: Duration = Duration::from_secs(15);
/// How long a watch may take to tell of what a list shows.
const LAG: Duration = Duration::from_secs(5);
/// How long a list that was asked for takes at most.
const LISTING: Duration = Duration::from_secs(10);
/// Objects per answer.
const PAGE: u32 = 1000;
/// Of more pods than this only those are compared that wait for a node: they are what nodes are launched for, and the others are listed
/// every ten minutes anyway.
const PODS_MAX: usize = 4000;

/// Compares one kind for as long as it is polled.
pub(crate) struct Audit<K> {
    api: Api<K>,
    cluster: Cluster,
    gate: SyncGate,
    relist: Arc<Notify>,
    rng: Rng,
    /// What no list puts right: objects that are not ours, or that cannot be read.
    excused: BTreeSet<Discrepancy>,
}

impl<K> Audit<K>
where
    K: Mirrored + Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug,
{
    /// An audit that rings `relist` when the kind has to be listed anew.
    pub(crate) fn new(client: Client, cluster: Cluster, gate: SyncGate, relist: Arc<Notify>, rng: Rng) -> Self {
        Self {
            api: Api::all(client),
            cluster,
            gate,
            relist,
            rng,
            excused: BTreeSet::new(),
        }
    }

    /// Compares for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        self.gate.wait().await;
        loop {
            let in_doubt = self.cluster.suspects(K::KIND);
            let every = if in_doubt { EVERY_IN_DOUBT } else { EVERY };
            tokio::time::sleep(self.rng.jitter(every, 0.1)).await;
            if let Err(error) = self.round().await {
                tracing::debug!(kind = ?K::KIND, error = kerf_runtime::client::describe(&error), "comparing with a fresh list failed");
            }
        }
    }

    async fn round(&mut self) -> Result<(), kube::Error> {
        let unbound_only = K::KIND == Kind::Pod && self.cluster.count(K::KIND) > PODS_MAX;
        let before = self.cluster.known::<K>(unbound_only);
        let fresh = self.list(unbound_only).await?;
        let mut found = compare(&before, &fresh);
        drop((before, fresh));
        if self.excused != found {
            self.excused.retain(|one| found.contains(one));
        }
        found.retain(|one| !self.excused.contains(one));
        self.wait_for(&mut found, LAG).await;
        self.cluster.heard(K::KIND, found.is_empty());
        if found.is_empty() {
            return Ok(());
        }
        tracing::warn!(kind = ?K::KIND, objects = found.len(), first = ?found.first(), "watch lost events, listing anew");
        self.relist.notify_one();
        self.wait_for(&mut found, LISTING).await;
        self.excused.extend(found);
        Ok(())
    }

    /// Waits and strikes out what has come right.
    async fn wait_for(&self, found: &mut BTreeSet<Discrepancy>, time: Duration) {
        if found.is_empty() {
            return;
        }
        tokio::time::sleep(time).await;
        let known = self.cluster.known::<K>(false);
        found.retain(|one| one.persists(&known));
    }

    /// What the API server has now: no resource version is named, so no cache may answer.
    async fn list(&self, unbound_only: bool) -> Result<BTreeMap<(Arc<str>, Arc<str>), Listed>, kube::Error> {
        let mut params = ListParams::default().limit(PAGE);
        if unbound_only {
            params = params.fields("spec.nodeName=");
        }
        let mut all = BTreeMap::new();
        loop {
            let page = self.api.list_metadata(&params).await?;
            all.extend(page.items.iter().map(|object| listed(&object.metadata)));
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => return Ok(all),
            }
        }
    }
}
