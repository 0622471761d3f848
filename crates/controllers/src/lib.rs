//! The controllers: they carry decisions out as API objects and machines, and report the results.
//!
//! The input is watch events, through the [`Cluster`]; the output is NodeClaims, patches, evictions and calls of a
//! [`CloudProvider`](kerf_cloud::CloudProvider). Pure functions, here and in the crates below, decide what to do; a `Reconciler` only
//! carries it out. It can be killed between any two of its calls, since all intent is in the API server.
//!
//! [`run`] puts everything together. Times are wall time of the [`Clock`](kerf_runtime::Clock), durations tokio's; resources are those
//! of the model: milli-cores, bytes, counts.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

mod buffer_status;
mod capacity_buffers;
mod catalogue;
mod changes;
mod claim_facts;
mod claim_writes;
mod clock_jump_guard;
mod cluster;
mod consistency;
mod context;
mod controller_manager;
mod creation;
mod deadline;
mod decision_inputs;
mod decision_observer;
mod disruption;
mod expiration;
mod garbage_collection;
mod hydration;
mod interruption;
mod lifecycle;
mod metadata_list;
mod node_writes;
mod pod_event_time;
mod pod_events;
mod pod_reference;
mod pools;
mod protection_events;
mod provider_task;
mod provisioning;
mod pump;
mod reconciler;
mod relist;
mod repair;
mod reporting;
mod retry;
mod search_limits;
mod shadow;
mod static_capacity;
mod termination;
mod watch_check;
mod write_locks;

pub use changes::{Change, Diff, PodChange, PodFacts};
pub use clock_jump_guard::ClockJumpGuard;
pub use cluster::{Cluster, conventions_of};
pub use context::{Context, Tuning};
pub use controller_manager::{Election, Manager, ManagerConfig, ManagerError, run};
pub use decision_inputs::decision_settings;
pub use decision_observer::{DecisionObserver, ObservedDecision};
pub use kerf_lifecycle::liveness::Timeouts;
pub use kerf_lifecycle::registration_health::Health;
pub use pools::RegistrationHealth;
pub use repair::{carrier, fleet_node, node_conditions, read_repair_policy, unhealthy_conditions};
pub use reporting::label_names;
pub use search_limits::SearchLimits;
pub use shadow::{Machine, RecordFileError, ShadowRecord};
