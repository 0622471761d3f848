//! The search state: which claims exist, what each may still become, and whether a class fits a node or a claim.

pub(crate) mod allowed;
pub(crate) mod assignment;
mod booking;
mod claim_checks;
pub(crate) mod claims;
mod consistency;
pub(crate) mod instance;
pub(crate) mod launch_spec;
mod limit_use;
mod narrowing;
pub(crate) mod query;
pub(crate) mod reservations;
pub(crate) mod specs;
pub(crate) mod target_cache;
pub(crate) mod target_checks;
pub(crate) mod updated_targets;
