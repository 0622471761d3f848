//! The statements of the disruption contract that are decided without acting.

mod budgets;
mod candidates;
mod costs;
mod detection;
mod drift;
mod emptiness;
mod fixture;
mod protection;
mod simulation;
