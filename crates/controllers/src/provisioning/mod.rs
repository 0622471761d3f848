//! Provisioning: plans for batches of pods that cannot be placed, and turns plans into NodeClaims, nominations and events.

mod batch;
mod buffer_findings;
pub(crate) mod events;
mod nomination;
mod nominator;
mod plan_gap;
mod preference_log;
mod provisioner;
mod relaxation_log;
pub(crate) mod report;
mod solve_age;
mod trigger;

pub(crate) use batch::Batcher;
pub(crate) use nominator::Nominator;
pub(crate) use plan_gap::PlanGap;
pub(crate) use provisioner::Provisioner;
pub(crate) use trigger::{NodeTrigger, PodTrigger};
