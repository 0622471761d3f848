//! The stores of everything that is in flight.

use super::{
    PodTimes, buffer_pods, claim_reservations, commands, deletion_marks, failed_replacements, launch_limits,
    launch_locks, nominations, promises, replacements, restarts, suspicious_lists, unlaunched_timeouts,
};
use kerf_model::consolidation_back_off::ConsolidationBackOff;

/// Everything that is in flight.
#[derive(Default, Debug)]
pub(crate) struct InFlightStore {
    /// Pods that wait for a claim that is not launched.
    pub(crate) promises: promises::Promises,
    /// Machines that disruption leaves alone because pods were placed on them.
    pub(crate) nominations: nominations::Nominations,
    /// Machines that disruption commands hold.
    pub(crate) deletion_marks: deletion_marks::DeletionMarks,
    /// Initialised machines that count as starting again.
    pub(crate) restarts: restarts::Restarts,
    /// The disruption commands in flight.
    pub(crate) commands: commands::Commands,
    /// The moves of consolidation, and those that were undone.
    pub(crate) consolidation_back_off: ConsolidationBackOff,
    /// Claims whose replacement is being made.
    pub(crate) replacements: replacements::Replacements,
    /// Machines whose replacement failed.
    pub(crate) failed_replacements: failed_replacements::FailedReplacements,
    /// Claims that may still be created under a node limit.
    pub(crate) claim_reservations: claim_reservations::ClaimReservations,
    /// When pods were seen, decided on and planned.
    pub(crate) pod_times: PodTimes,
    /// Virtual pods that the last provisioning pass placed on machines.
    pub(crate) buffer_pods: buffer_pods::BufferPods,
    /// The pools whose launches find no capacity.
    pub(crate) launch_limits: launch_limits::LaunchLimits,
    /// Pods for which a claim is being created.
    pub(crate) launch_locks: launch_locks::LaunchLocks,
    /// Lists that may not show what exists.
    pub(crate) suspicious_lists: suspicious_lists::SuspiciousLists,
    /// Claims that planning waits for.
    pub(crate) unlaunched_timeouts: unlaunched_timeouts::UnlaunchedTimeouts,
}
