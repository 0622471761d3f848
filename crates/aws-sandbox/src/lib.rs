//! The embedded AWS: an account in this process, answered at the wire below the real SDK.
//!
//! [`account`] holds the state of an account as plain data and says what each call does to it, as functions of the request and the time. A
//! module of protocols reads what the SDK sends and writes what AWS would answer; the connector carries both. So signing, serialisation,
//! pages, retries and the reading of errors are those of production. [`faults`] refuses, loses and delays calls.
//!
//! Times come from the one clock, random choices from a seed. The connector, and with it the SDK, is there with the cargo feature `sdk`.

#![cfg_attr(not(test), deny(clippy::expect_used, clippy::iter_over_hash_type))]

pub mod account;
#[cfg(feature = "sdk")]
mod connector;
pub mod faults;
mod sandbox;
#[cfg(feature = "sdk")]
mod wire;

#[cfg(feature = "sdk")]
pub use connector::connect;
pub use sandbox::AwsSandbox;
