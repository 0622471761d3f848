//! A certified lower bound: no plan that places the same pods costs less.
//!
//! Volumes, limits and most of topology are left out; `parts` says what of topology is not. Fractions of nodes are allowed, each filled with whole
//! pods. What remains is a linear program: as many nodes of each kind and filling as needed, at the lowest cost. Any values of pods under which no
//! node can be filled with pods worth more than its price are feasible for its dual, so the total value of the pods is a lower bound. Floating point
//! finds good values; integers prove them.

mod certificate;
mod duals;
mod filling_value;
mod machines;
mod parts;

pub use certificate::{cost_bound, cost_bound_of_kinds, cost_bound_of_nodes, cost_gap};
