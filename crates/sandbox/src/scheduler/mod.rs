//! The default scheduler: binds unbound pods, or reports in a condition and an event why no node fits.
//!
//! The filters are those of `kerf-check`. Nodes are scored by resources, preferences and soft taints; the name decides between equal scores,
//! so that runs repeat. There is no preemption.

mod attempt;
mod cache;
mod nominations;
mod queue;
mod report;
mod scheduling_loop;
mod score;

pub(crate) use scheduling_loop::start;
pub use score::Scoring;
