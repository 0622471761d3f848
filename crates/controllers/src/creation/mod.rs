//! From a planned launch to a NodeClaim in the API server (sections 20 and 21 of the scheduling contract).

mod claim;
pub(crate) mod create;

pub(crate) use create::{Creation, CreationError, create};
