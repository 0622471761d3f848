//! `kerf shadow report`: what Kerf decided beside another autoscaler, and what that one did.

mod comparison;
mod records;
mod run;
mod table;

pub(crate) use run::run;
