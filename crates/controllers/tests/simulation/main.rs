//! The real controllers on an embedded cluster, in virtual time.

mod crash;
mod drift;
mod drift_crash;
mod emptiness;
mod garbage;
mod harness;
mod lifecycle;
mod provisioning;
mod repair;
mod termination;
