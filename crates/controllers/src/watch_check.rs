//! Checks each watch against fresh lists of metadata.
//!
//! A watch that silently lost an event leaves the mirror wrong until the next relist. So every watched kind is compared with a fresh list
//! at short intervals, and is listed anew when the mirror stays wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use kerf_runtime::{Rng, SyncGate};
use kerf_state::Kind;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::cluster::{Cluster, Discrepancy, Listed, Subject, compare, listed};
use crate::metadata_list::MetadataList;

/// How often a kind is compared: an event that was lost is found within a minute.
const EVERY: Duration = Duration::from_secs(40);
/// How often while its lists are not trusted.
const EVERY_IN_DOUBT: Duration = Duration::from_secs(15);
/// How long a watch may take to tell of what a list shows.
const LAG: Duration = Duration::from_secs(5);
/// How long a list that was asked for takes at most.
const LISTING: Duration = Duration::from_secs(10);
/// An object that no list puts right is tried again after ten minutes at the latest.
const DOUBLINGS_MAX: u32 = 4;
/// Objects per answer.
const PAGE: u32 = 1000;
/// Of more pods than this only those are compared that wait for a node: they are what nodes are launched for, and the others are listed
/// every ten minutes anyway.
const PODS_MAX: usize = 4000;

/// Compares one kind for as long as it is polled.
pub(crate) struct WatchCheck {
    client: Client,
    /// Where all objects of the kind are.
    path: String,
    subject: Subject,
    cluster: Cluster,
    gate: SyncGate,
    relist: Arc<Notify>,
    rng: Rng,
    /// What lists did not put right: objects that are not ours, or that cannot be read, or the list lost them as well.
    excused: BTreeMap<Discrepancy, Excuse>,
}

/// How often a list did not help, and until when none is asked for again: each time twice as long, since most of them never help.
#[derive(Debug)]
struct Excuse {
    failures: u32,
    until: Instant,
}

impl WatchCheck {
    /// A check that signals `relist` when the kind has to be listed anew.
    pub(crate) fn new(
        client: Client,
        path: String,
        subject: Subject,
        cluster: Cluster,
        gate: SyncGate,
        relist: Arc<Notify>,
        rng: Rng,
    ) -> Self {
        Self {
            client,
            path,
            subject,
            cluster,
            gate,
            relist,
            rng,
            excused: BTreeMap::new(),
        }
    }

    /// Compares for ever.
    pub(crate) async fn run(mut self) -> Infallible {
        self.gate.wait().await;
        loop {
            let in_doubt = self.cluster.suspects(self.subject);
            let every = if in_doubt { EVERY_IN_DOUBT } else { EVERY };
            tokio::time::sleep(self.rng.jitter(every, 0.1)).await;
            if let Err(error) = self.round().await {
                tracing::debug!(subject = ?self.subject, error = kerf_runtime::client::describe(&error), "comparing with a fresh list failed");
            }
        }
    }

    async fn round(&mut self) -> Result<(), kube::Error> {
        let unbound_only = self.subject == Subject::Mirrored(Kind::Pod) && self.cluster.pod_count() > PODS_MAX;
        let before = self.cluster.known(self.subject, unbound_only);
        let fresh = self.list(unbound_only).await?;
        let mut found = compare(&before, &fresh);
        drop((before, fresh));
        self.excused.retain(|one, _| found.contains(one));
        let now = Instant::now();
        found.retain(|one| self.excused.get(one).is_none_or(|excuse| excuse.until <= now));
        self.wait_for(&mut found, LAG).await;
        self.cluster.heard(self.subject, found.is_empty());
        if found.is_empty() {
            return Ok(());
        }
        tracing::warn!(subject = ?self.subject, objects = found.len(), first = ?found.first(), "watch lost events, listing anew");
        self.relist.notify_one();
        self.wait_for(&mut found, LISTING).await;
        for one in found {
            let excuse = self.excused.entry(one).or_insert(Excuse {
                failures: 0,
                until: now,
            });
            excuse.until = now + EVERY * 2_u32.pow(excuse.failures.min(DOUBLINGS_MAX));
            excuse.failures += 1;
        }
        Ok(())
    }

    /// Waits and strikes out what has come right.
    async fn wait_for(&self, found: &mut BTreeSet<Discrepancy>, time: Duration) {
        if found.is_empty() {
            return;
        }
        tokio::time::sleep(time).await;
        let known = self.cluster.known(self.subject, false);
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
            let request = Request::new(&self.path).list_metadata(&params);
            let request = request.map_err(kube::Error::BuildRequest)?;
            let page: MetadataList = self.client.request(request).await?;
            all.extend(page.items.iter().map(|object| listed(&object.metadata)));
            match page.metadata.continue_token {
                none if none.is_empty() => return Ok(all),
                token => params = params.continue_token(&token),
            }
        }
    }
}
