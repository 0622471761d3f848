//! Runs the loops of a provider.

use std::sync::Arc;

use async_trait::async_trait;
use kerf_runtime::{CancellationToken, ProviderLoops, ProviderNews};
use kerf_state::lean::LeanNode;

use crate::changes::{Change, Diff};
use crate::claim_facts::is_registered;
use crate::reconciler::LeaderTask;

/// Hands changes on to the provider's loops.
pub(crate) struct ProviderTask(Arc<dyn ProviderLoops>);

impl ProviderTask {
    pub(crate) fn new(loops: Arc<dyn ProviderLoops>) -> Arc<Self> {
        Arc::new(Self(loops))
    }
}

/// Whether a Node is registered and was not before.
fn became_registered(node: &Diff<LeanNode>) -> bool {
    let is = |node: &Option<Arc<LeanNode>>| node.as_ref().is_some_and(|node| is_registered(&node.metadata));
    is(&node.after) && !is(&node.before)
}

#[async_trait]
impl LeaderTask for ProviderTask {
    fn name(&self) -> &'static str {
        "provider"
    }

    fn notify(&self, change: &Change) {
        match change {
            Change::Class(class) => {
                if let Some(last) = class.last() {
                    self.0.notify(ProviderNews::Class { name: &last.name });
                }
            }
            Change::Claim(claim) => {
                if let Some(last) = claim.last() {
                    let gone = claim.is_gone();
                    self.0.notify(ProviderNews::Claim { claim: last, gone });
                }
            }
            Change::Node(node) if became_registered(node) => {
                self.0.notify(ProviderNews::Registered { node: node.name() });
            }
            Change::Node(_) | Change::Pod(_) | Change::Pool(_) | Change::Overlay(_) | Change::Buffer(_) => {}
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        Arc::clone(&self.0).run(shutdown).await;
    }
}
