//! The binder: what kube-scheduler will do with a plan.
//!
//! kube-scheduler does not know plans. Machines come up one after the other, pods wait in a queue by priority and age, and each goes to the
//! node with the highest score. A tight plan then leaves pods over, for which another machine is launched. This module plays that queue
//! over the machines of a plan and says which pods are left over and what the machines of the second round cost. Where more pods are coming,
//! pods like those of the plan follow them in the queue.
//!
//! What is left out: the share of the nodes that kube-scheduler looks at in clusters of more than 100 nodes,
//! preferred affinity between pods, images. Spread and affinity between pods are those of the solver.

mod arrivals;
mod choose;
mod forecast;
mod later_pods;
mod machines;
mod nominations;
mod play;
mod pod_arrivals;
mod queue;
mod score;
mod spreading;

pub use arrivals::{Arrival, Arrivals};
pub(crate) use choose::choose;
pub use forecast::{BindingForecast, BoundTo, Forecaster};
pub use nominations::Nominees;
pub use queue::Millis;
pub use score::{allocation_score, balance_score, spread_penalty, spread_score};
