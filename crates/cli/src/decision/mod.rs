//! What a decision is made from: the objects of a cluster, read from files or from an API server, and the settings of the command line.

mod capacity_buffers;
mod ec2_settings;
mod files;
mod input;
mod inputs;
mod live;
mod mirror;
mod nominations;
mod pool_catalogues;
mod settings;

pub(crate) use ec2_settings::ec2_settings;
#[cfg(feature = "aws")]
pub(crate) use ec2_settings::settings_in;
pub(crate) use files::{from_files, from_sources};
pub(crate) use input::Cluster;
pub(crate) use input::with_gates;
pub(crate) use inputs::DecisionInputs;
pub use live::KINDS;
pub(crate) use live::{from_cluster, from_lists};
pub(crate) use settings::{ObjectSource, Settings};

use crate::manifests::InputError;
use crate::messages::say;

/// Objects that were read, and what was wrong with others.
#[derive(Default)]
pub(crate) struct Input {
    pub(crate) cluster: Cluster,
    /// Objects that were left out, and why.
    pub(crate) errors: Vec<InputError>,
    /// What a user may want to know.
    pub(crate) notes: Vec<String>,
}

/// Prints notes for the user on standard error.
pub(crate) fn print_notes(notes: &[String]) {
    notes.iter().for_each(|note| say!("note: {note}"));
}

/// Prints errors on standard error.
pub(crate) fn print_errors(errors: &[InputError]) {
    errors.iter().for_each(|error| say!("error: {error}"));
}
