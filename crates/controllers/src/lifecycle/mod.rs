//! Takes NodeClaims from creation to an initialized node, and from deletion to their end (the controller `nodeclaim.lifecycle`).
//!
//! What a [launch](launch), a [registration] and an [initialization] change in a claim is written here as functions of API objects; how
//! long they may take and what they say about the claim's pool is decided by [`kerf_lifecycle`]. A reconciliation is one pass, which can
//! be repeated and interrupted anywhere.

mod controller;
pub(crate) mod finalize;
mod hooks;
pub(crate) mod initialization;
mod launch;
mod launches;
mod liveness;
mod pass;
mod pool_health;
mod registration;
mod reregistration;

pub(crate) use controller::Lifecycle;
pub(crate) use initialization::{closed_gate, is_ready};
pub(crate) use registration::taints_mut;
