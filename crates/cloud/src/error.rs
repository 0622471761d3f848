//! Errors of a provider, grouped by what the caller can do about them.

use kerf_api::conditions::node_claim;
use kerf_model::instance_type::CatalogueFault;
use std::sync::Arc;
use std::time::Duration;

/// An error of a provider. The text after the prefix is the provider's own.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloudError {
    /// No offering the claim allows is available: delete the claim and schedule again (LIF-023).
    #[error("insufficient capacity, {0}")]
    InsufficientCapacity(Arc<str>),
    /// The node class cannot be used now: delete the claim and schedule again (LIF-024).
    #[error("node class not ready, {0}")]
    NodeClassNotReady(Arc<str>),
    /// The instance does not exist, or no longer exists: what a termination waits for (LIF-074, LIF-075).
    #[error("nodeclaim not found, {0}")]
    NodeClaimNotFound(Arc<str>),
    /// A launch failed in a way the claim's Launched condition names (LIF-026): retry with backoff.
    #[error("{message}")]
    Create {
        /// The condition's reason.
        reason: Arc<str>,
        /// The condition's message.
        message: Arc<str>,
    },
    /// Node overlays were not evaluated for the pool yet (SCH-374): skip the pool quietly.
    #[error("awaiting evaluation of node overlays for pool {0}")]
    AwaitingOverlays(Arc<str>),
    /// The provider asks to retry later, as with throttling: not before `after`.
    #[error("{message}")]
    Retryable {
        /// What happened.
        message: Arc<str>,
        /// The least wait before the next attempt, where the provider names one.
        after: Option<Duration>,
    },
    /// Anything else: retry with backoff.
    #[error("{0}")]
    Other(Arc<str>),
}

/// What the caller of `create` does with the claim after an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchFailure {
    /// Delete the claim; the reason is the label of `karpenter_nodeclaims_disrupted_total`.
    DeleteClaim {
        /// `insufficient_capacity` or `nodeclass_not_ready`.
        reason: &'static str,
    },
    /// Try again with backoff until the launch timeout.
    Retry,
}

impl CloudError {
    /// An insufficient-capacity error.
    pub fn insufficient_capacity(message: impl Into<Arc<str>>) -> Self {
        Self::InsufficientCapacity(message.into())
    }

    /// A not-found error.
    pub fn not_found(message: impl Into<Arc<str>>) -> Self {
        Self::NodeClaimNotFound(message.into())
    }

    /// An error without a kind of its own.
    pub fn other(message: impl Into<Arc<str>>) -> Self {
        Self::Other(message.into())
    }

    /// Whether the instance is gone.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NodeClaimNotFound(_))
    }

    /// The least wait before the next attempt, where the provider names one.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Retryable { after, .. } => *after,
            Self::InsufficientCapacity(_)
            | Self::NodeClassNotReady(_)
            | Self::NodeClaimNotFound(_)
            | Self::Create { .. }
            | Self::AwaitingOverlays(_)
            | Self::Other(_) => None,
        }
    }

    /// What to do with the claim after this error of `create` (LIF-023, LIF-024, LIF-026).
    pub fn launch_failure(&self) -> LaunchFailure {
        match self {
            Self::InsufficientCapacity(_) => LaunchFailure::DeleteClaim {
                reason: "insufficient_capacity",
            },
            Self::NodeClassNotReady(_) => LaunchFailure::DeleteClaim {
                reason: "nodeclass_not_ready",
            },
            Self::NodeClaimNotFound(_)
            | Self::Create { .. }
            | Self::AwaitingOverlays(_)
            | Self::Retryable { .. }
            | Self::Other(_) => LaunchFailure::Retry,
        }
    }

    /// Reason and message of the claim's Launched condition (LIF-026); long messages are cut as API-108 wants.
    pub fn launched_condition(&self) -> (Arc<str>, String) {
        let (reason, message) = match self {
            Self::Create { reason, message } => (Arc::clone(reason), message.to_string()),
            Self::InsufficientCapacity(_)
            | Self::NodeClassNotReady(_)
            | Self::NodeClaimNotFound(_)
            | Self::AwaitingOverlays(_)
            | Self::Retryable { .. }
            | Self::Other(_) => (Arc::from(node_claim::LAUNCH_FAILED), self.to_string()),
        };
        (reason, node_claim::launch_failed_message(&message))
    }

    /// The `error` label of `karpenter_cloudprovider_errors_total` (OPS-168).
    pub fn metric_label(&self) -> &'static str {
        match self {
            Self::InsufficientCapacity(_) => "InsufficientCapacityError",
            Self::NodeClassNotReady(_) => "NodeClassNotReadyError",
            Self::NodeClaimNotFound(_) => "NodeClaimNotFoundError",
            Self::Create { .. } | Self::AwaitingOverlays(_) | Self::Retryable { .. } | Self::Other(_) => "",
        }
    }

    /// The error as the reason why a pool has no catalogue (SCH-139).
    pub fn catalogue_fault(&self) -> CatalogueFault {
        match self {
            Self::AwaitingOverlays(_) => CatalogueFault::AwaitingOverlays,
            Self::InsufficientCapacity(_)
            | Self::NodeClassNotReady(_)
            | Self::NodeClaimNotFound(_)
            | Self::Create { .. }
            | Self::Retryable { .. }
            | Self::Other(_) => CatalogueFault::Provider(self.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // LIF-023, LIF-024, LIF-026, OPS-168
    #[test]
    fn each_kind_tells_what_becomes_of_the_claim() {
        let give_up = |reason| LaunchFailure::DeleteClaim { reason };
        let create = CloudError::Create {
            reason: "SpotQuotaExceeded".into(),
            message: "spot quota exceeded".into(),
        };
        let table = [
            (
                CloudError::insufficient_capacity("no m5.large in zone-a"),
                give_up("insufficient_capacity"),
                "InsufficientCapacityError",
                ("LaunchFailed", "insufficient capacity, no m5.large in zone-a"),
            ),
            (
                CloudError::NodeClassNotReady("broken".into()),
                give_up("nodeclass_not_ready"),
                "NodeClassNotReadyError",
                ("LaunchFailed", "node class not ready, broken"),
            ),
            (
                create,
                LaunchFailure::Retry,
                "",
                ("SpotQuotaExceeded", "spot quota exceeded"),
            ),
            (
                CloudError::other("boom"),
                LaunchFailure::Retry,
                "",
                ("LaunchFailed", "boom"),
            ),
        ];
        for (error, verdict, label, (reason, message)) in table {
            assert_eq!(error.launch_failure(), verdict, "{error}");
            assert_eq!(error.metric_label(), label, "{error}");
            let condition = error.launched_condition();
            assert_eq!((&*condition.0, condition.1.as_str()), (reason, message));
        }
    }

    // SCH-139, SCH-374
    #[test]
    fn a_pool_that_awaits_overlays_is_told_from_one_whose_provider_fails() {
        assert_eq!(
            CloudError::AwaitingOverlays("default".into()).catalogue_fault(),
            CatalogueFault::AwaitingOverlays
        );
        assert_eq!(
            CloudError::other("no route").catalogue_fault(),
            CatalogueFault::Provider("no route".into())
        );
    }
}
