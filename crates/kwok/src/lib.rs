//! The KWOK provider: nodes without machines, for tests, the demo and simulations.
//!
//! In come NodeClaims and instance types (built in, real EC2 ones, or read from a file); out go Node objects that a simulator brings
//! to life. Units are those of the model.

mod builtin;
mod ec2;
mod read;
mod recipe;

pub use builtin::builtin_catalogue;
pub use ec2::{ec2_catalogue, ec2_label_keys};
pub use read::{CatalogueError, CatalogueErrors, ReadMode, read_catalogue};
pub use recipe::{LABEL_CPU, LABEL_FAMILY, LABEL_MEMORY, LABEL_SIZE};
