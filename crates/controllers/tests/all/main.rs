//! The tests of the controllers: one binary, so that everything they use is linked once.
//!
//! `provisioning` and `simulation` run the real controllers on an embedded cluster in virtual time, `chaos` does so in small worlds where
//! everything fails that can, and `real_control_plane` runs them on etcd and kube-apiserver.

mod chaos;
mod merge;
mod objects;
mod offline_agreement;
mod provisioning;
mod real_control_plane;
mod simulation;

// A fifth of the time of a chaos world is spent in the allocator.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
