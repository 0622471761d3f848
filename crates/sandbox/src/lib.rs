//! The embedded cluster: API server, scheduler, workload controllers, kubelets and fault injection on one clock.
//!
//! [`Sandbox`] starts `kerf-apiserver` in process with Kerf's CRDs and starts actors on it: the parts of kube-scheduler, the
//! controller manager and the kubelets that an autoscaler and its users can see. The actors use [`kube::Client`] and watches, so [`Actors`]
//! work on any other API server too. Input: objects written through the API. Output: bound, running and terminated pods, statuses, events
//! and taints.
//!
//! Durations are tokio's and wall time is [`kerf_runtime::Clock`]'s: on a current-thread runtime with paused time a run is the same every
//! time for the same seed, and a day takes seconds. [`faults`] injects failures between a client and the API server.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::iter_over_hash_type))]

mod actors;
#[expect(clippy::expect_used, reason = "a log that cannot be read is a mistake in the test")]
mod captured_log;
mod context;
mod disruption_budget;
pub mod faults;
mod kubelet;
mod node_agents;
mod node_lifecycle;
mod node_match;
mod object;
mod pod_gc;
mod sandbox;
mod scheduler;
mod store;
mod volumes;
mod workloads;

pub use actors::{ActorOptions, Actors};
pub use captured_log::CapturedLog;
pub use kubelet::{EXIT_CODE, FLAP_EVERY, KUBELET, KubeletOptions, NodeSelection, RUN_FOR, SIMULATED_NODE, STOP_AFTER};
pub use node_agents::REMOVES_TAINT;
pub use sandbox::{Sandbox, SandboxBuilder, SandboxError};
pub use scheduler::Scoring;
