//! The real controllers on an embedded cluster, in virtual time.

#![expect(clippy::float_cmp, reason = "counters count whole things")]

mod crash;
mod drift;
mod drift_crash;
mod emptiness;
mod garbage;
mod harness;
mod interruption;
mod lifecycle;
mod overlays;
mod provisioning;
mod repair;
mod reporting;
mod static_capacity;
mod termination;
