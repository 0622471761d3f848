//! Reads a cluster from manifests.

use super::{Input, input};
use crate::manifests::{Source, read_inputs, read_objects, refuse_unknown_fields};
use kerf_aws::options::AwsFeatureGates;
use std::io;
use std::path::PathBuf;

/// Reads files, folders and standard input. With `validate`, objects with unknown fields are errors.
pub(crate) fn from_files(paths: &[PathBuf], validate: bool, gates: AwsFeatureGates) -> Input {
    let (sources, mut errors, mut notes) = read_inputs(paths, &mut io::stdin().lock());
    let mut input = from_sources(sources, validate, gates);
    errors.append(&mut input.errors);
    notes.append(&mut input.notes);
    Input { errors, notes, ..input }
}

/// Reads texts. With `validate`, objects with unknown fields are errors.
pub(crate) fn from_sources(sources: Vec<Source>, validate: bool, gates: AwsFeatureGates) -> Input {
    let mut found = read_objects(&sources);
    drop(sources);
    let admission = input::admission(gates);
    if validate {
        refuse_unknown_fields(&mut found, &admission);
    }
    input::read(found, admission)
}
