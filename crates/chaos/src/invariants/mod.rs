//! What must hold after every event, and what once nothing goes on any more. One rule a module, each judging what the API and the cloud
//! show, with a test that it can be broken.

mod abandonment;
mod budgets;
mod finalizers;
mod invariant;
mod leadership;
mod pairs;
mod pod_budgets;
mod protection;
mod replacements;
mod running;

pub(crate) use invariant::{Invariant, all};
