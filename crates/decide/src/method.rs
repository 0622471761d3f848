//! The ways to disrupt, in the order they are evaluated (DIS-005).

use kerf_disruption::Class;
use kerf_model::budget::DisruptionReason;
use std::time::Duration;

/// One way to disrupt nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Nodes without reschedulable pods are deleted without a replacement.
    Emptiness,
    /// Drifted nodes of pools with a fixed number of nodes are replaced one for one.
    StaticDrift,
    /// Drifted nodes of other pools are replaced by what their pods need.
    Drift,
    /// Several nodes are deleted together, with at most one cheaper machine in their place.
    MultiNodeConsolidation,
    /// One node is deleted, or replaced by a cheaper machine.
    SingleNodeConsolidation,
}

impl Method {
    /// All, in the order of their evaluation.
    pub const ORDER: [Self; 5] = [
        Self::Emptiness,
        Self::StaticDrift,
        Self::Drift,
        Self::MultiNodeConsolidation,
        Self::SingleNodeConsolidation,
    ];

    /// The method after this one; `None` after the last.
    pub const fn next(self) -> Option<Self> {
        match self {
            Self::Emptiness => Some(Self::StaticDrift),
            Self::StaticDrift => Some(Self::Drift),
            Self::Drift => Some(Self::MultiNodeConsolidation),
            Self::MultiNodeConsolidation => Some(Self::SingleNodeConsolidation),
            Self::SingleNodeConsolidation => None,
        }
    }

    /// The reason of its commands and of the budgets that apply.
    pub const fn reason(self) -> DisruptionReason {
        match self {
            Self::Emptiness => DisruptionReason::Empty,
            Self::StaticDrift | Self::Drift => DisruptionReason::Drifted,
            Self::MultiNodeConsolidation | Self::SingleNodeConsolidation => DisruptionReason::Underutilized,
        }
    }

    /// Its name in logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Emptiness => "Emptiness",
            Self::StaticDrift => "StaticDrift",
            Self::Drift => "Drift",
            Self::MultiNodeConsolidation => "MultiNodeConsolidation",
            Self::SingleNodeConsolidation => "SingleNodeConsolidation",
        }
    }

    /// The label `consolidation_type` of its metrics (DIS-268).
    pub const fn consolidation_type(self) -> &'static str {
        match self {
            Self::Emptiness => "empty",
            Self::StaticDrift | Self::Drift => "",
            Self::MultiNodeConsolidation => "multi",
            Self::SingleNodeConsolidation => "single",
        }
    }

    /// Whether it moves pods to save money, so that a move that does not last is remembered (deviation at DIS-119).
    pub const fn consolidates(self) -> bool {
        matches!(self, Self::MultiNodeConsolidation | Self::SingleNodeConsolidation)
    }

    /// How long its commands wait before they are validated and started; zero for those that start at once (DIS-127, DIS-153).
    pub const fn validation_wait(self) -> Duration {
        match self {
            Self::Emptiness | Self::MultiNodeConsolidation | Self::SingleNodeConsolidation => Duration::from_secs(15),
            Self::StaticDrift | Self::Drift => Duration::ZERO,
        }
    }

    /// How it treats pods that block the disruption of their node (DIS-001).
    pub(crate) const fn class(self) -> Class {
        match self {
            Self::Emptiness | Self::MultiNodeConsolidation | Self::SingleNodeConsolidation => Class::Graceful,
            Self::StaticDrift | Self::Drift => Class::Eventual,
        }
    }
}
