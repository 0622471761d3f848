//! `kerf catalogue`: the instance types of an EC2NodeClass.

mod live;
mod report;
mod run;
mod table;

pub(crate) use run::run;
