//! `kerf catalogue`: the instance types of an EC2NodeClass.

mod report;
mod run;
mod table;

pub(crate) use run::run;
