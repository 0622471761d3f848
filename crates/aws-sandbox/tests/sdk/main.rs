//! The callers of the AWS SDK against the embedded account: what they send is read at the wire, and what they read was written there.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod bad_input;
mod boot;
mod calls;
mod chaos;
mod cluster;
mod cluster_fixture;
mod cluster_objects;
mod describe;
mod failures;
mod fixture;
mod instances;
mod launches;
mod moto;
mod moto_fixture;
mod moto_machines;
mod moto_server;
mod services;
mod swap;
mod templates;
mod trouble;
