//! The taint `kerf.sh/not-a-destination`: while the pods of a large command move, kube-scheduler should prefer the nodes onto which the command
//! planned them (`kerf_decide::destinations`).
//!
//! The taint says when it ends, and is the only state: the disruption loop removes those that have ended, whoever wrote them.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kerf_api::taints;
use kerf_model::in_flight::Destinations;
use kerf_runtime::client::describe;
use kerf_state::lean::{LeanNode, LeanTaint};

use super::taints::{DisruptionTaints, add_taint, remove_taint};
use crate::context::Context;

/// How long the taint stays, in seconds. After a large deletion consolidation decides again a minute later (`crates/decide/src/pause.rs`),
/// possibly with other destinations.
const LASTS: i64 = 60;

/// Writes and removes the taint.
pub(super) struct DestinationTaints {
    context: Context,
    taints: DisruptionTaints,
}

impl DestinationTaints {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            context: context.clone(),
            taints: DisruptionTaints::new(context),
        }
    }

    /// Taints the nodes to avoid, but for those onto which other commands in flight planned pods, and frees those planned for. Nodes that need
    /// no change cost no call. A write that fails is no error: pods may then go to a node that was not planned for, as without taints.
    pub(super) async fn put(&self, destinations: &Destinations) {
        let until = self.context.now().as_second().saturating_add(LASTS);
        let cluster = &self.context.cluster;
        let known = |name: &Arc<str>| cluster.node(name);
        let planned = cluster.planned_destinations();
        let avoided = destinations.avoided.iter().filter(|name| !planned.contains(*name));
        let bare = avoided.filter_map(known).filter(|node| ends(node).is_none());
        self.edit_all(bare, |node| add_taint(node, taints::not_a_destination(until)))
            .await;
        let tainted = destinations
            .planned
            .iter()
            .filter_map(known)
            .filter(|node| ends(node).is_some());
        self.edit_all(tainted, |node| remove_taint(node, &taints::not_a_destination(0)))
            .await;
    }

    /// Removes the taints that have ended, and those with a value that Kerf would not write now: the clock was set back since, or someone
    /// changed it.
    pub(super) async fn remove_ended(&self) {
        let now = self.context.now().as_second();
        let lasts = |until: i64| until > now && until <= now.saturating_add(LASTS);
        let ended = |node: &Arc<LeanNode>| ends(node).is_some_and(|until| !until.is_some_and(lasts));
        let nodes = self.context.cluster.nodes();
        self.edit_all(nodes.into_iter().filter(ended), |node| {
            remove_taint(node, &taints::not_a_destination(0));
        })
        .await;
    }

    async fn edit_all(
        &self,
        nodes: impl Iterator<Item = Arc<LeanNode>>,
        edit: impl Fn(&mut Node) + Copy + Send + Sync,
    ) {
        let writes = nodes.map(|node| async move {
            if let Err(error) = self.taints.edit_node(node.metadata.name.as_deref(), edit).await {
                tracing::debug!(
                    node = node.metadata.name,
                    error = describe(&error),
                    "the taint of a node that is no destination was not changed"
                );
            }
        });
        join_all(writes).await;
    }
}

/// When the taint of a node ends, in seconds since 1970: `None` without a taint, `Some(None)` if its value is not a time.
fn ends(node: &LeanNode) -> Option<Option<i64>> {
    let ours = |taint: &&LeanTaint| taints::is_not_a_destination(&taint.key, &taint.effect);
    let taint = node.spec.taints.iter().find(ours)?;
    Some(taint.value.parse().ok())
}
