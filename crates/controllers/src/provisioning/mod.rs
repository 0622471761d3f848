//! Provisioning: pods that cannot be placed, in batches, become plans, and plans become NodeClaims, nominations and events.

mod batch;
pub(crate) mod events;
pub(crate) mod pass;
mod provisioner;
pub(crate) mod record;
mod trigger;

pub use batch::{BatchWindow, Batcher};
pub use provisioner::Provisioner;
pub use trigger::{NodeTrigger, PodTrigger};
