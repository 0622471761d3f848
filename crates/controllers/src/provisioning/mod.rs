//! Provisioning: pods that cannot be placed, in batches, become plans, and plans become NodeClaims, nominations and events.

mod batch;
pub(crate) mod events;
mod notices;
pub(crate) mod pass;
mod planned;
mod provisioner;
pub(crate) mod record;
mod relaxing;
mod trigger;
mod turns;

pub(crate) use batch::Batcher;
pub(crate) use provisioner::Provisioner;
pub(crate) use trigger::{NodeTrigger, PodTrigger};
