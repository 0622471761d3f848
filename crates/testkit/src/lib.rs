//! Clusters and API objects for tests and benches, and documents that benches write. Other crates use this one as a dev-dependency only.
//!
//! In: text in the fixture language, seeds of random clusters, sizes of the reference workload, names of API objects. Out: snapshots, pods,
//! plans as text, and JSON.
//! A fixture that cannot be read is a mistake in the test, so everything here panics on bad input.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read is a mistake in the test"
)]

pub mod disruption;
pub mod document;
pub mod draw;
pub mod fixture;
pub mod generate;
pub mod life;
pub mod objects;
pub mod plots;
pub mod random_clusters;
pub mod seeds;
pub mod timing;
pub mod upstream_roles;
pub mod workload;
pub mod worlds;
