//! The verbs: each is a function of the locked state and one request, free of I/O.

mod create;
mod delete;
mod list;
mod ownership;
mod patch;
mod update;

pub(crate) use list::{ListRequest, parse_filter};
pub(crate) use patch::PatchBody;
pub(crate) use update::nothing_holds;
