//! The statements of the disruption contract that are decided without acting.

#![expect(clippy::unwrap_used, reason = "fixtures fail loudly")]
#![expect(clippy::type_complexity, reason = "the types of tables are said by their rows")]
#![expect(clippy::float_cmp, reason = "the values compared are exact in binary")]

mod budgets;
mod candidates;
mod costs;
mod detection;
mod drift;
mod emptiness;
mod fixture;
mod protection;
mod simulation;
mod static_drift;
