//! Fault injection between a client and the API server, as a tower layer: latency, refusals, lost requests and responses, watch outages,
//! stale reads, and the death of the client between any two calls.
//!
//! A layer belongs to one client, so that only the component under test gets faults. Its [`Faults`] handle switches faults at any time. The
//! fault of a call depends on the seed and the order of calls only.

mod body;
mod layer;
mod plan;
mod stale;
mod switch;

pub use layer::{BoxError, FaultLayer, FaultService};
pub use plan::{FaultPlan, KillMoment};
pub use switch::Faults;
