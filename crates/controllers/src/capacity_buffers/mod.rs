//! CapacityBuffers: room for pods that are still to come (section 25 of `docs/behaviour/scheduling.md`).

mod controller;
mod findings;
mod referent;
mod status;

pub(crate) use controller::CapacityBuffers;
pub(crate) use findings::after_pass;
