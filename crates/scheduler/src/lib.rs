//! The solver: from a snapshot and the pods that need a place to a [`kerf_model::plan::Plan`].
//!
//! In come a [`Request`] (an immutable snapshot, pods, nodes that are no targets) and [`Options`]; out goes a plan: launches, placements on
//! machines there are already, and typed reasons for every pod left over. Pure: no clock, no I/O, no randomness; the same input and effort
//! give the same plan at any thread count. Who has many questions about one snapshot makes it [`Prepared`] once. Units are those of the
//! model: milli-cores, bytes, counts, 10⁻¹² dollars per hour.

mod amounts;
mod bits;
mod bound;
mod claims;
mod classes;
mod daemons;
mod finish;
mod held;
mod labels;
mod launches;
mod limits;
mod memo;
mod nodes;
mod options;
mod prepared;
mod reasons;
mod relax;
mod requirements;
mod reservations;
mod run;
mod solve;
mod states;
mod strategy;
mod taints;
mod templates;
mod topology;
mod touched;
mod types;
mod world;
mod zones;

pub use held::{Held, Planned};
pub use options::{MinValuesPolicy, Options, Packing, PreferencePolicy, Request, ReservedMode, WhatIf};
pub use prepared::Prepared;
pub use solve::{explain, solve};
pub use zones::EffectiveZone;
