//! Signals by which a cloud announces that an instance will be stopped or is unhealthy.

use jiff::Timestamp;

/// One signal, about one or more instances.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// What happens to the instances.
    pub kind: InterruptionKind,
    /// The provider ids of the instances; ids without a claim are ignored.
    pub provider_ids: Vec<String>,
    /// When the cloud sent it, where it says so; for the latency metric.
    pub sent: Option<Timestamp>,
    /// What the provider needs to acknowledge it; opaque to the controllers.
    pub receipt: String,
}

/// What a signal announces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum InterruptionKind {
    /// The cloud takes a spot instance back within minutes.
    SpotReclaim,
    /// A spot instance is at a higher risk of being taken back.
    RebalanceRecommendation,
    /// The capacity reservation behind the instance ends.
    ReservationReclaim,
    /// The cloud will do maintenance on the instance.
    ScheduledChange,
    /// The instance stops or has stopped.
    InstanceStopped,
    /// The instance is being terminated or was.
    InstanceTerminated,
    /// The instance's own reachability check fails.
    InstanceUnhealthy,
    /// The check of the system below the instance fails.
    SystemUnhealthy,
    /// A poll of instance status found a maintenance event.
    StatusEvent,
}

/// What the controller does about a signal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum InterruptionAction {
    /// Publish an Event, nothing more.
    Report,
    /// Delete the claim: the node drains gracefully.
    Drain,
    /// Delete the claim with a termination time of now: the drain does not wait.
    Terminate,
}

impl InterruptionKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::SpotReclaim,
        Self::RebalanceRecommendation,
        Self::ReservationReclaim,
        Self::ScheduledChange,
        Self::InstanceStopped,
        Self::InstanceTerminated,
        Self::InstanceUnhealthy,
        Self::SystemUnhealthy,
        Self::StatusEvent,
    ];

    /// The name in metric labels, and the reason of the disruption.
    pub const fn label(self) -> &'static str {
        match self {
            Self::SpotReclaim => "spot_interrupted",
            Self::RebalanceRecommendation => "rebalance_recommendation",
            Self::ReservationReclaim => "capacity_reservation_interrupted",
            Self::ScheduledChange => "scheduled_change",
            Self::InstanceStopped => "instance_stopped",
            Self::InstanceTerminated => "instance_terminated",
            Self::InstanceUnhealthy => "instance_status",
            Self::SystemUnhealthy => "system_status",
            Self::StatusEvent => "event_status",
        }
    }

    /// What the controller does about it.
    pub const fn action(self) -> InterruptionAction {
        match self {
            Self::RebalanceRecommendation => InterruptionAction::Report,
            Self::SpotReclaim
            | Self::ReservationReclaim
            | Self::ScheduledChange
            | Self::InstanceStopped
            | Self::InstanceTerminated
            | Self::StatusEvent => InterruptionAction::Drain,
            Self::InstanceUnhealthy | Self::SystemUnhealthy => InterruptionAction::Terminate,
        }
    }

    /// Whether the offering the instance came from should be avoided for a time.
    pub const fn exhausts_offering(self) -> bool {
        matches!(self, Self::SpotReclaim | Self::ReservationReclaim)
    }

    /// Whether the signal says that the instance will not run much longer whatever the controller does.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::SpotReclaim | Self::ReservationReclaim | Self::InstanceStopped | Self::InstanceTerminated
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn kinds_have_distinct_labels_and_only_advice_leaves_the_claim_alone() {
        let labels: BTreeSet<_> = InterruptionKind::ALL.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels.len(), InterruptionKind::ALL.len());
        let reported: Vec<_> = InterruptionKind::ALL
            .into_iter()
            .filter(|kind| kind.action() == InterruptionAction::Report)
            .collect();
        assert_eq!(reported, [InterruptionKind::RebalanceRecommendation]);
    }
}
