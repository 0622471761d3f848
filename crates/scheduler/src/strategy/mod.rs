//! Strategies over one search: which claim a pod is offered to, and in which order. `README.md` describes each of them.

mod best_fit;
mod bounded_growth;
mod combination;
mod equal_nodes;
mod greedy;
mod independent;
mod limit_retry;
mod lower_bound;
mod lp_duals;
mod max_pods;
mod objective;
mod outcome;
mod patterns;
mod pod_values;
mod portfolio;
mod priced_start;
mod repacking;
mod slack_index;

pub(crate) use equal_nodes::equal_nodes;
pub(crate) use greedy::{FewestPods, solve as solve_queue, without};
pub use objective::balanced_nodes_max;
pub(crate) use objective::{Objective, Rank};
pub use outcome::Strategy;
pub(crate) use outcome::{Outcome, Stop};
pub(crate) use portfolio::{Ranked, ranked};
pub(crate) use repacking::{BoundPlace, rebind, repack_with_room};
