//! Interruption signals that users raise by annotating a Node with kubectl.
//!
//! A signal is delivered as long as the annotation exists, also after a restart; acknowledging the signal removes the annotation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kerf_cloud::{Interruption, InterruptionKind, REDELIVERY, redelivery};
use kerf_runtime::client::{ApiErrorKind, Part, send_patch};
use kube::api::{ListParams, Patch, WatchParams};
use kube::core::{PartialObjectMeta, WatchEvent};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

use crate::machine::{LABEL_SIMULATED, PROVIDER_ID_PREFIX};

/// The annotation that raises an interruption of a KWOK Node's machine. Its value is the [`label`](InterruptionKind::label) of a kind,
/// such as `spot_interrupted`.
pub const INTERRUPTION: &str = "sandbox.kerf.sh/interruption";

/// Prefix of the receipts of these signals; receipts of [`SignalQueue`](kerf_cloud::SignalQueue) are numbers.
const RECEIPT: &str = "annotation/";

/// Finds annotated Nodes and turns them into signals.
pub(crate) struct InterruptionAnnotations {
    nodes: Api<Node>,
    /// By receipt: until when a delivered signal is not delivered again; `None` for an unknown value, which is never delivered.
    hidden: Mutex<BTreeMap<String, Option<Instant>>>,
}

impl InterruptionAnnotations {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            nodes: Api::all(client),
            hidden: Mutex::default(),
        }
    }

    /// Returns the signals that are due, at least one; waits until there are some. The error is that of a list or a watch.
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
            tokio::select! {
                biased;
                changed = self.change(&version) => changed?,
                () = redelivery(next) => {}
            }
        }
    }

    /// Returns the signals that are due now and when the next hidden one is due. Logs unknown values once.
    fn take(&self, nodes: &[PartialObjectMeta<Node>], now: Instant) -> (Vec<Interruption>, Option<Instant>) {
        let mut hidden = self.hidden.lock().unwrap_or_else(PoisonError::into_inner);
        let name = |node: &PartialObjectMeta<Node>| node.metadata.name.clone();
        let annotated: BTreeMap<String, (String, &str)> = nodes
            .iter()
            .filter_map(|node| Some((receipt(node)?, (name(node)?, annotation(node)?))))
            .collect();
        hidden.retain(|receipt, _| annotated.contains_key(receipt));
        let mut ready = Vec::new();
        for (receipt, (name, value)) in annotated {
            if hidden
                .get(&receipt)
                .is_some_and(|until| until.is_none_or(|until| until > now))
            {
                continue;
            }
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

    /// Returns when a Node has a new annotation or the watch ends.
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

    /// Removes the annotation; a Node that is gone is fine.
    pub(crate) async fn acknowledge(&self, node: &str) -> Result<(), kube::Error> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {INTERRUPTION: null}}}));
        send_patch(&self.nodes, node, Part::Object, &patch).await.map(drop)
    }
}

/// The value of the annotation.
fn annotation(node: &PartialObjectMeta<Node>) -> Option<&str> {
    node.annotations().get(INTERRUPTION).map(String::as_str)
}

/// Identifies a signal: another value on the same Node is another signal. `None` without the annotation.
fn receipt(node: &PartialObjectMeta<Node>) -> Option<String> {
    let name = node.metadata.name.as_deref()?;
    Some(format!("{RECEIPT}{name}/{}", annotation(node)?))
}

/// The name of the Node whose annotation raised a signal; `None` for a signal from elsewhere.
pub(crate) fn node_of(signal: &Interruption) -> Option<&str> {
    let (node, _) = signal.receipt.strip_prefix(RECEIPT)?.split_once('/')?;
    Some(node)
}
