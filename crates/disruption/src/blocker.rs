//! Why a node is not disrupted; prints the text its events carry (DIS-022 to DIS-040, DIS-116 to DIS-119).

use crate::command::capitalized;
use std::sync::Arc;

/// The first thing that keeps a node.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Blocker {
    /// DIS-023.
    #[error("candidate is already being disrupted")]
    Queued,
    /// DIS-024.
    #[error("node isn't managed by karpenter")]
    Unmanaged,
    /// DIS-025.
    #[error("nodeclaim does not have an associated node")]
    NoNode,
    /// DIS-026.
    #[error("node isn't initialized")]
    Uninitialized,
    /// DIS-027.
    #[error("node is deleting or marked for deletion")]
    Deleting,
    /// Deviation at DIS-022.
    #[error("several Nodes or NodeClaims have its provider id")]
    Doubled,
    /// DIS-028.
    #[error("node is nominated for a pending pod")]
    Nominated,
    /// DIS-029.
    #[error("disruption is blocked through the \"karpenter.sh/do-not-disrupt\" annotation")]
    NodeAnnotation,
    /// DIS-030.
    #[error("node doesn't have required label (label=karpenter.sh/nodepool)")]
    NoPoolLabel,
    /// DIS-032.
    #[error("nodepool not found (NodePool={0})")]
    NoPool(Arc<str>),
    /// Deviation at DIS-022: the claim's pool.
    #[error("label \"karpenter.sh/nodepool\" of node and nodeclaim differ (NodeClaim's={0})")]
    OtherPool(Arc<str>),
    /// DIS-035: the pod as `namespace/name`.
    #[error("pod has \"karpenter.sh/do-not-disrupt\" annotation (Pod={0})")]
    PodAnnotation(String),
    /// DIS-037: the budget as `namespace/name`.
    #[error("pdb prevents pod evictions (PodDisruptionBudget=[{0}])")]
    Pdb(String),
    /// DIS-037, DIS-064: the budgets as `namespace/name`, separated by a blank.
    #[error("eviction does not support multiple PDBs (PodDisruptionBudget(s)=[{0}])")]
    MultiplePdbs(String),
}

impl Blocker {
    /// Whether a pod is in the way, which methods that may wait for a deadline overlook (DIS-038, DIS-039).
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
