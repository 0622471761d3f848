//! CapacityBuffers: room for pods that are still to come (section 25 of `docs/behaviour/scheduling.md`).

mod controller;
mod referent;

pub(crate) use controller::CapacityBuffers;
