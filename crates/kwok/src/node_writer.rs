//! Creates the Node object of a machine after its registration delay (KWK-041).

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::client::{ApiErrorKind, describe, found};
use kerf_runtime::{Rng, Seed};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

// Attempts and waits are those of client-go's default backoff, which KWK-041 names.
const ATTEMPTS: u32 = 4;
const WAIT_FIRST: Duration = Duration::from_millis(10);
const WAIT_FACTOR: u32 = 5;
const WAIT_JITTER: f64 = 0.1;

/// Creates Nodes in tasks of their own and remembers the names of those not created yet. A restart loses them; their claims then run
/// into the registration timeout (KWK-042).
#[derive(Clone)]
pub(crate) struct NodeWriter {
    client: Client,
    pending: Arc<Mutex<BTreeSet<String>>>,
}

impl NodeWriter {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            pending: Arc::default(),
        }
    }

    /// Creates the Node after `delay`. Does nothing if a Node of that name is pending already; a Node without a name is not written.
    pub(crate) fn write_after(&self, node: Node, delay: Duration) {
        let Some(name) = node.metadata.name.clone() else { return };
        if self.locked().insert(name.clone()) {
            let writer = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                writer.write(&name, &node).await;
            });
        }
    }

    /// Gives up a pending Node. One that is being created at this moment is deleted afterwards.
    pub(crate) fn cancel(&self, name: &str) {
        self.locked().remove(name);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the Node with retries; logs the last error.
    async fn write(&self, name: &str, node: &Node) {
        let nodes = Api::<Node>::all(self.client.clone());
        let random: Rng = Seed(0).derive(name).rng();
        let mut wait = WAIT_FIRST;
        for attempt in 1..=ATTEMPTS {
            if !self.locked().contains(name) {
                return;
            }
            match nodes.create(&PostParams::default(), node).await {
                Ok(_) => break,
                Err(error) if ApiErrorKind::of(&error) == ApiErrorKind::AlreadyExists => break,
                Err(error) if attempt == ATTEMPTS => {
                    tracing::error!(
                        Node = name,
                        error = describe(&error),
                        "failed creating node from nodeclaim"
                    );
                }
                Err(_) => {
                    tokio::time::sleep(random.jitter(wait, WAIT_JITTER)).await;
                    wait *= WAIT_FACTOR;
                }
            }
        }
        let wanted = self.locked().remove(name);
        if !wanted && let Err(error) = found(nodes.delete(name, &DeleteParams::default()).await) {
            tracing::error!(
                Node = name,
                error = describe(&error),
                "failed deleting node of a deleted nodeclaim"
            );
        }
    }
}
