//! What every controller needs around its decisions: time, queues, the Kubernetes client, events, metrics and logs.
//! No decision is made here.
//!
//! The input is options, requests to reconcile and watch events; the output is calls of reconcilers, API requests, Kubernetes
//! Events, metrics, probes and log lines. Durations are tokio's, wall time comes from one [`Clock`], and randomness
//! from one [`Seed`], so everything here runs unchanged under virtual time.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

mod backoff;
pub mod client;
mod clock;
mod controller;
pub mod events;
pub mod health;
pub mod leader;
pub mod logging;
pub mod metrics;
pub mod options;
mod provider_loops;
mod queue;
mod random;
mod raw_object;
mod readable;
pub mod server;
mod shutdown;
pub mod watch;

pub use backoff::{Backoff, RateLimit, TokenBucket, workers};
pub use clock::Clock;
pub use controller::{Controller, Outcome, ReconcileError};
pub use events::{Event, EventType, ObjectRef, Recorder};
pub use health::{HealthChecks, SyncGate};
pub use metrics::Metrics;
pub use options::Options;
pub use provider_loops::{ProviderLoops, ProviderNews};
pub use queue::{Key, ObjectKey, Priority, Queue};
pub use random::{Rng, Seed};
pub use readable::{Readable, Unreadable, node_name};
pub use shutdown::{CancellationToken, TaskError, TaskGroup};
