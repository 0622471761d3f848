//! What to inject, and how often.

use std::time::Duration;

/// The faults to inject. Chances are between 0 (never, the default) and 1 (always).
#[derive(Clone, PartialEq, Debug, Default)]
pub struct FaultPlan {
    /// Minimum and maximum latency added to every call.
    pub latency: Option<(Duration, Duration)>,
    /// A write is refused with 409 Conflict.
    pub conflict: f64,
    /// A call is refused with 429 Too Many Requests and a `Retry-After` of one second.
    pub too_many: f64,
    /// A call is refused with 500 Internal Server Error.
    pub internal: f64,
    /// A request is lost: it never arrives, and the client sees a broken connection.
    pub lost: f64,
    /// A request is carried out, but its response is lost.
    pub answer_lost: f64,
    /// The connection of a watch breaks within [`FaultPlan::watch_life`] of its start.
    pub watch_cut: f64,
    /// A watch ends with 410 Gone within [`FaultPlan::watch_life`].
    pub watch_gone: f64,
    /// The longest time from the start of a watch to its outage.
    pub watch_life: Duration,
    /// A read gets the response that the same read got earlier.
    pub stale: f64,
    /// Every watch event is delayed by this much.
    pub watch_lag: Duration,
    /// A watch event, also one of the initial list, is dropped.
    pub watch_loss: f64,
    /// The plurals whose watches lose events; all when empty.
    pub watch_loss_of: Vec<String>,
}

/// Whether the API server still receives the last call of a killed client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillMoment {
    /// The last request never arrives.
    Before,
    /// The last request is carried out, but the client never gets the response.
    After,
}
