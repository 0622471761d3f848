//! `kerf simulate`: one provisioning decision from manifests, offline.

mod constraint_costs;
mod report;
mod run;
mod table;

pub(crate) use report::{ReasonReport, SimulationReport};
pub(crate) use run::{planned_or_explained, run};
