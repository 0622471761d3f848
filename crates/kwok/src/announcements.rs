//! Interruptions that are raised by annotating a Node, so that anybody with kubectl can play the cloud.
//!
//! The annotation is the signal: it is delivered while it is there, across restarts too, and taken off when it was acted on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kerf_cloud::{Interruption, InterruptionKind, REDELIVERY};
use kerf_runtime::client::{ApiErrorKind, found};
use kube::api::{ListParams, Patch, PatchParams, WatchParams};
use kube::core::{PartialObjectMeta, WatchEvent};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::machine::{LABEL_SIMULATED, PROVIDER_ID_PREFIX};

/// On a Node of the KWOK provider: raises an interruption of its machine. The value is a kind's [`label`](InterruptionKind::label), such
/// as `spot_interrupted`.
pub const INTERRUPTION: &str = "sandbox.kerf.sh/interruption";

/// What tells the receipts from those of signals raised otherwise.
const RECEIPT: &str = "annotation/";

/// The annotated Nodes.
pub(crate) struct Announcements {
    nodes: Api<Node>,
    /// Until when a signal is hidden that was delivered, by receipt; `None` for a value nobody knows.
    hidden: Mutex<BTreeMap<String, Option<Instant>>>,
}

impl Announcements {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            nodes: Api::all(client),
            hidden: Mutex::default(),
        }
    }

    /// Waits for annotated Nodes.
    pub(crate) async fn receive(&self) -> Result<Vec<Interruption>, kube::Error> {
        loop {
            let listed = self
                .nodes
                .list_metadata(&ListParams::default().labels(LABEL_SIMULATED))
                .await?;
            let (ready, next) = self.take(&listed.items, Instant::now());
            if !ready.is_empty() {
                return Ok(ready);
            }
            let version = listed.metadata.resource_version.unwrap_or_default();
            let redelivery = async {
                match next {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.change(&version) => changed?,
                () = redelivery => {}
            }
        }
    }

    /// What may be delivered now, and when the next hidden one may be.
    fn take(&self, nodes: &[PartialObjectMeta<Node>], now: Instant) -> (Vec<Interruption>, Option<Instant>) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let annotated: BTreeMap<String, (&PartialObjectMeta<Node>, &str)> = nodes
            .iter()
            .filter_map(|node| Some((receipt(node)?, (node, announced(node)?))))
            .collect();
        hidden.retain(|receipt, _| annotated.contains_key(receipt));
        let mut ready = Vec::new();
        for (receipt, (node, value)) in annotated {
            if hidden
                .get(&receipt)
                .is_some_and(|until| until.is_none_or(|until| until > now))
            {
                continue;
            }
            let name = node.name_any();
            let Some(kind) = InterruptionKind::ALL.into_iter().find(|kind| kind.label() == value) else {
                let known: BTreeSet<&str> = InterruptionKind::ALL.iter().map(|kind| kind.label()).collect();
                tracing::warn!(node = name, value, ?known, "{INTERRUPTION} names no interruption");
                hidden.insert(receipt, None);
                continue;
            };
            hidden.insert(receipt.clone(), Some(now + REDELIVERY));
            ready.push(Interruption {
                kind,
                provider_ids: vec![format!("{PROVIDER_ID_PREFIX}{name}")],
                sent: None,
                receipt,
            });
        }
        (ready, hidden.values().flatten().min().copied())
    }

    /// Waits until a Node is annotated anew, or the watch ends.
    async fn change(&self, version: &str) -> Result<(), kube::Error> {
        let params = WatchParams::default().labels(LABEL_SIMULATED);
        let mut events = self.nodes.watch_metadata(&params, version).await?.boxed();
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                    let hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
                    if receipt(&node).is_some_and(|receipt| !hidden.contains_key(&receipt)) {
                        return Ok(());
                    }
                }
                WatchEvent::Error(status) if ApiErrorKind::of_status(&status) != ApiErrorKind::Gone => {
                    return Err(kube::Error::Api(status));
                }
                WatchEvent::Error(_) => return Ok(()),
                WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
            }
        }
        Ok(())
    }

    /// Takes the annotation off. A Node that is gone has none.
    pub(crate) async fn acknowledge(&self, node: &str) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {INTERRUPTION: null}}}));
        found(self.nodes.patch_metadata(node, &PatchParams::default(), &patch).await).map(drop)
    }
}

fn announced(node: &PartialObjectMeta<Node>) -> Option<&str> {
    node.annotations().get(INTERRUPTION).map(String::as_str)
}

/// Another value on the same Node is another signal.
fn receipt(node: &PartialObjectMeta<Node>) -> Option<String> {
    Some(format!("{RECEIPT}{}/{}", node.name_any(), announced(node)?))
}

/// The Node whose annotation a signal was, if it was one.
pub(crate) fn node_of(signal: &Interruption) -> Option<&str> {
    let (node, _) = signal.receipt.strip_prefix(RECEIPT)?.split_once('/')?;
    Some(node)
}
