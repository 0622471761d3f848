//! The mirror: one store per kind of API object, filled by watch events, and snapshots made from the stores.
//!
//! Everything else is computed from the stores, and only for what changed. So events of different objects may arrive in any order, and a
//! relist equals many events. A snapshot costs what changed since the last one, plus one pointer per node, pool and pending pod.
//!
//! [`crate::in_flight`] holds what the API does not record; the mirror's commands change it together with the machines and pods it concerns.

mod capacity_buffers;
mod commands;
mod contents;
mod daemons;
mod decision;
mod fold;
mod listed_pods;
mod machines;
mod node_classes;
mod objects;
mod occupancy;
mod pool_claims;
mod pools;
mod publish;
mod storage;
mod store;
mod sync;
mod unlisted;
mod versions;
mod waiting;

pub use contents::{Mirror, MirrorOptions};
pub use listed_pods::ListedPod;
pub use objects::Stored;
pub use pool_claims::PoolClaims;
pub use sync::SyncReport;
pub use versions::ObjectVersion;
pub use waiting::WaitingPod;

use contents::PodEntry;
