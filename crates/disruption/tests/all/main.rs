//! The statements of the disruption contract that are decided without acting.

#![expect(clippy::unwrap_used, reason = "fixtures fail loudly")]
#![expect(clippy::type_complexity, reason = "the types of tables are said by their rows")]
#![expect(clippy::float_cmp, reason = "the values compared are exact in binary")]

mod balanced;
mod budgets;
mod candidates;
mod consolidation;
mod costs;
mod detection;
mod drift;
mod emptiness;
mod explain;
mod multi;
mod property;
mod protection;
mod required_savings;
mod retirement;
mod several;
mod simulation;
mod single;
mod spot;
mod static_drift;
mod validation;

use kerf_testkit::disruption as fixture;
