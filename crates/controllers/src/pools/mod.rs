//! Keeps the status of NodePools and their drift hashes (section 15 of `docs/behaviour/lifecycle.md`, DIS-221 to DIS-234).

mod counter;
mod hash;
mod health;
mod readiness;
mod registration_health;
mod status;
mod validation;
mod write;

pub(crate) use counter::PoolCounter;
pub(crate) use hash::PoolHash;
pub(crate) use health::health;
pub(crate) use readiness::readiness;
pub use registration_health::RegistrationHealth;
pub(crate) use status::{PoolStatus, pools_of_class};
pub(crate) use validation::validation;
