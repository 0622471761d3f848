//! What the API does not record: actions of this process that are in flight, and what it waits for.
//!
//! All of it lives in memory only, and a restart may lose it. Each file holds the store of one kind of information. Events and commands
//! change a store, and [`crate::Mirror::expire`] removes what has expired. Queries do not: a snapshot applies the events since the last one, but
//! never ends anything because time has passed.

mod buffer_pods;
mod claim_reservations;
mod commands;
mod deletion_marks;
mod failed_replacements;
mod launch_limits;
mod launch_locks;
mod nominations;
mod pod_times;
mod promises;
mod replacements;
mod restarts;
mod suspicious_lists;
mod unlaunched_timeouts;

pub use commands::{CommandInFlight, CommandNode, Replacement};
pub use pod_times::{Placed, PodTime, PodTimes};
pub use suspicious_lists::SuspiciousList;

pub(crate) use promises::Promise;
pub(crate) use unlaunched_timeouts::Unlaunched;

use jiff::Timestamp;
use kerf_model::consolidation_back_off::ConsolidationBackOff;
use std::time::Duration;

/// The current time on two clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The wall time, which API objects are written in. It may jump.
    pub wall: Timestamp,
    /// How long the process has run, by a clock that does not jump.
    pub uptime: Duration,
}

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
