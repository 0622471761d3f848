//! Why a node is not disrupted; prints the text its events carry (DIS-022 to DIS-040, DIS-116 to DIS-119).

use crate::text::capitalized;
use crate::unread::Unread;
use std::sync::Arc;

/// A reason why a node may not be disrupted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Blocker {
    /// Another command holds the node (DIS-023).
    #[error("candidate is already being disrupted")]
    Queued,
    /// The node has no NodeClaim (DIS-024).
    #[error("node isn't managed by karpenter")]
    Unmanaged,
    /// The NodeClaim has no Node yet (DIS-025).
    #[error("nodeclaim does not have an associated node")]
    NoNode,
    /// The NodeClaim is not initialized (DIS-026).
    #[error("node isn't initialized")]
    Uninitialized,
    /// Node or NodeClaim is being deleted (DIS-027).
    #[error("node is deleting or marked for deletion")]
    Deleting,
    /// Its provider id is not unique (deviation at DIS-022).
    #[error("several Nodes or NodeClaims have its provider id")]
    Doubled,
    /// Pending pods were nominated to the node a moment ago (DIS-028).
    #[error("node is nominated for a pending pod")]
    Nominated,
    /// Node or NodeClaim has the annotation `karpenter.sh/do-not-disrupt` (DIS-029).
    #[error("disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")]
    NodeAnnotation,
    /// The label that names its NodePool is missing (DIS-030).
    #[error("node doesn't have required label (label=karpenter.sh/nodepool)")]
    NoPoolLabel,
    /// The NodePool does not exist or has no instance types (DIS-032).
    #[error("nodepool not found (NodePool={0})")]
    NoPool(Arc<str>),
    /// Node and NodeClaim name different pools; this is the NodeClaim's (deviation at DIS-022).
    #[error("label \"karpenter.sh/nodepool\" of node and nodeclaim differ (NodeClaim's={0})")]
    OtherPool(Arc<str>),
    /// A pod has the annotation `karpenter.sh/do-not-disrupt`; the pod as `namespace/name` (DIS-035).
    #[error("pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={0})")]
    PodAnnotation(String),
    /// A PodDisruptionBudget allows no eviction now; the budget as `namespace/name` (DIS-037).
    #[error("pdb prevents pod evictions (PodDisruptionBudget=[{0}])")]
    Pdb(String),
    /// Several PodDisruptionBudgets cover a pod; the budgets as `namespace/name`, separated by a space (DIS-037, DIS-064).
    #[error("eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{0}])")]
    MultiplePdbs(String),
    /// An object that cannot be read may protect it (deviation at DIS-034).
    #[error("{0}")]
    Unreadable(Arc<Unread>),
}

impl Blocker {
    /// Whether a pod blocks the node. Methods with a termination grace period ignore such blockers (DIS-038, DIS-039).
    pub const fn is_pod(&self) -> bool {
        matches!(self, Self::PodAnnotation(_) | Self::Pdb(_) | Self::MultiplePdbs(_))
    }

    /// Whether Node and NodeClaim get a `DisruptionBlocked` event (DIS-031, DIS-032, DIS-040).
    pub const fn is_event(&self) -> bool {
        !matches!(self, Self::Queued | Self::Unmanaged)
    }

    /// The event's message.
    pub fn message(&self) -> String {
        if let Self::NoPool(pool) = self {
            return format!("NodePool not found (NodePool={pool})");
        }
        if let Self::Unreadable(unread) = self {
            // Unlike other blockers it does not show in the objects of the node.
            return format!("{unread}; {}", unread.remedy());
        }
        capitalized(self.to_string())
    }

    /// A stable name for reports and scripts.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Queued => "Queued",
            Self::Unmanaged => "Unmanaged",
            Self::NoNode => "NoNode",
            Self::Uninitialized => "Uninitialized",
            Self::Deleting => "Deleting",
            Self::Doubled => "Doubled",
            Self::Nominated => "Nominated",
            Self::NodeAnnotation => "NodeAnnotation",
            Self::NoPoolLabel => "NoPoolLabel",
            Self::NoPool(_) => "NoPool",
            Self::OtherPool(_) => "OtherPool",
            Self::PodAnnotation(_) => "PodAnnotation",
            Self::Pdb(_) => "Pdb",
            Self::MultiplePdbs(_) => "MultiplePdbs",
            Self::Unreadable(_) => "Unreadable",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // DIS-031, DIS-032
    #[test]
    fn event_messages_start_with_a_capital() {
        assert_eq!(Blocker::Uninitialized.message(), "Node isn't initialized");
        assert_eq!(Blocker::NoPool("a".into()).message(), "NodePool not found (NodePool=a)");
        assert!(!Blocker::Unmanaged.is_event() && !Blocker::Queued.is_event() && Blocker::NoNode.is_event());
    }
}
