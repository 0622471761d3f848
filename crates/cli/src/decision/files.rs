//! From manifests to a cluster.

use super::{Input, input};
use crate::manifests::{read_inputs, read_objects};
use std::io;
use std::path::PathBuf;

/// Reads files, folders and standard input.
pub(crate) fn from_files(paths: &[PathBuf]) -> Input {
    let (inputs, mut errors, mut notes) = read_inputs(paths, &mut io::stdin().lock());
    let (objects, object_errors, object_notes) = read_objects(&inputs);
    errors.extend(object_errors);
    notes.extend(object_notes);
    drop(inputs);
    let (cluster, input_errors) = input::read(objects);
    errors.extend(input_errors);
    Input { cluster, errors, notes }
}
