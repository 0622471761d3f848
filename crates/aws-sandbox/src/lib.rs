//! The embedded AWS: an account in this process, answered at the wire below the real SDK.
//!
//! [`account`] holds the state of an account as plain data, and the effect of each call as functions of the request and the time. A
//! module of protocols reads what the SDK sends and writes what AWS would answer; the connector carries both. So signing, serialisation,
//! pages, retries and the reading of errors are those of production. A module of faults refuses, loses and delays calls. [`boot`] reads the
//! user data of instances and lets those that would join the cluster become Nodes of `kerf-sandbox`. [`StarterCluster`] makes an account to
//! begin with.
//!
//! Times come from the one clock, random choices from a seed. Protocols, connector and faults are there with the cargo feature `sdk`, which
//! brings the SDK.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

pub mod account;
pub mod boot;
#[cfg(feature = "sdk")]
mod connector;
#[cfg(feature = "sdk")]
pub mod faults;
mod sandbox;
mod starter;
#[cfg(feature = "sdk")]
mod wire;

#[cfg(feature = "sdk")]
pub use connector::{connect, connect_as};
pub use sandbox::AwsSandbox;
pub use starter::StarterCluster;
