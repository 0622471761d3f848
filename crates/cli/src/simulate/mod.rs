//! `kerf simulate`: one provisioning decision from manifests, offline.

mod report;
mod run;
mod table;

pub(crate) use report::{NodeReport, ReasonReport, SimulationReport};
pub(crate) use run::{check_options, run, verify};
pub(crate) use table::columns;
