//! `kerf simulate`: one provisioning decision from manifests, offline.

mod input;
mod report;
mod run;
mod table;

pub(crate) use run::run;
pub(crate) use table::columns;
