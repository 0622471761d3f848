//! From manifests to a cluster.

use super::{Input, input};
use crate::manifests::{Source, read_inputs, read_objects};
use std::io;
use std::path::PathBuf;

/// Reads files, folders and standard input.
pub(crate) fn from_files(paths: &[PathBuf]) -> Input {
    let (sources, mut errors, mut notes) = read_inputs(paths, &mut io::stdin().lock());
    let read = from_sources(sources);
    errors.extend(read.errors);
    notes.extend(read.notes);
    Input {
        cluster: read.cluster,
        errors,
        notes,
    }
}

/// Reads texts.
pub(crate) fn from_sources(sources: Vec<Source>) -> Input {
    let (objects, mut errors, notes) = read_objects(&sources);
    drop(sources);
    let (cluster, input_errors) = input::read(objects);
    errors.extend(input_errors);
    Input { cluster, errors, notes }
}
