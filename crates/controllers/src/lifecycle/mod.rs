//! From a NodeClaim to a node that runs pods, and back to nothing (the controller `nodeclaim.lifecycle`).
//!
//! The rules are pure and live beside the controller: what a [launch](launch), a [registration], an [initialization] make of a claim,
//! how long it may take ([liveness]), and what that says about its pool ([health]). The controller carries them out, one pass per
//! look at a claim; every pass can be repeated and cut off anywhere.

mod controller;
pub(crate) mod finalize;
pub(crate) mod health;
mod hooks;
pub(crate) mod initialization;
mod launch;
mod launches;
mod liveness;
mod pass;
mod pool_health;
mod registration;
mod rejoin;

pub(crate) use controller::Lifecycle;
pub use health::{Health, RegistrationHealth};
pub use liveness::Timeouts;
pub(crate) use registration::taints_mut;
