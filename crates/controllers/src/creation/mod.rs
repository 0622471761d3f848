//! Creates NodeClaims for planned launches (SCH-309 to SCH-326).

mod claim;
pub(crate) mod create;

pub(crate) use create::{Creation, CreationError, create};
