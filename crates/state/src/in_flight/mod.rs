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
mod store;
mod suspicious_lists;
mod unlaunched_timeouts;

pub use commands::{CommandInFlight, CommandNode, Replacement};
pub use pod_times::{Placed, PodTime, PodTimes};
pub use suspicious_lists::SuspiciousList;

pub(crate) use promises::Promise;
pub(crate) use store::InFlightStore;
pub(crate) use unlaunched_timeouts::Unlaunched;

use jiff::Timestamp;
use std::time::Duration;

/// The current time on two clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// The wall time, which API objects are written in. It may jump.
    pub wall: Timestamp,
    /// How long the process has run, by a clock that does not jump.
    pub uptime: Duration,
}
