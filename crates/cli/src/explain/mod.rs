//! `kerf explain`: why one object is where it is, or is nowhere.
//!
//! A subject is named as for kubectl (`pod/web-0`); each has a module that answers for it.

mod node;
mod pod;
mod repair;
mod run;
mod subject;
mod text;

pub(crate) use run::run;
