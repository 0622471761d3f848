//! The KWOK provider: nodes without machines, for tests, the demo and simulations.
//!
//! The input is NodeClaims and instance types (built in, real EC2 ones, or read from a file); the output is Node objects, for which a
//! simulator plays the kubelet. Units are those of the model.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

mod builtin;
mod ec2;
mod interruption_annotations;
mod load;
mod machine;
mod node_writer;
mod pool_annotations;
mod provider;
mod read;
mod type_definition;

pub use builtin::builtin_catalogue;
pub use ec2::ec2_catalogue;
pub use interruption_annotations::INTERRUPTION;
pub use load::{LoadError, load_catalogue, load_catalogue_or_none};
pub use machine::{LABEL_PARTITION, LABEL_PRICE, LABEL_SIMULATED, PROVIDER_ID_PREFIX};
pub use pool_annotations::{REGISTRATION, REPORTED_CAPACITY};
pub use provider::{KwokProvider, NODE_CLASS, PROVIDER_NAME, repair_policies, vocabulary};
pub use read::{CatalogueError, CatalogueErrors, ReadMode, read_catalogue};
