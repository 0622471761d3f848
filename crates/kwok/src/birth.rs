//! Writing Nodes after their launch was answered (KWK-041).

use k8s_openapi::api::core::v1::Node;
use kerf_runtime::client::{ApiErrorKind, describe, found};
use kerf_runtime::{Rng, Seed};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const ATTEMPTS: u32 = 4;
const WAIT_FIRST: Duration = Duration::from_millis(10);
const WAIT_FACTOR: u32 = 5;
const WAIT_JITTER: f64 = 0.1;

/// Nodes on their way into the cluster. The set is as large as launches of the last moments are many; a restart loses it, and the
/// registration timeout heals that (KWK-042).
#[derive(Clone)]
pub(crate) struct Births {
    client: Client,
    expected: Arc<Mutex<BTreeSet<String>>>,
}

impl Births {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            expected: Arc::default(),
        }
    }

    /// Writes the Node after a delay, in a task of its own; not twice for one name.
    pub(crate) fn begin(&self, node: Node, delay: Duration) {
        let name = node.metadata.name.clone().unwrap_or_default();
        if self.locked().insert(name.clone()) {
            let births = self.clone();
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                births.write(&name, &node).await;
            });
        }
    }

    /// The Node is not wanted any more; one that is being written is removed again.
    pub(crate) fn cancel(&self, name: &str) {
        self.locked().remove(name);
    }

    fn locked(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
