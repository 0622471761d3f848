//! From manifests to a cluster.

use super::{Input, input};
use crate::manifests::{Source, read_inputs, read_objects};
use std::io;
use std::path::PathBuf;

/// Reads files, folders and standard input.
pub(crate) fn from_files(paths: &[PathBuf]) -> Input {
    let (sources, mut errors, mut notes) = read_inputs(paths, &mut io::stdin().lock());
    let mut input = from_sources(sources);
    errors.append(&mut input.errors);
    notes.append(&mut input.notes);
    Input { errors, notes, ..input }
}

/// Reads texts.
pub(crate) fn from_sources(sources: Vec<Source>) -> Input {
    let found = read_objects(&sources);
    drop(sources);
    input::read(found)
}
