//! The file that records are appended to.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::shadow_record::ShadowRecord;

/// The file cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("--observe-file {path:?} cannot be opened: {source}")]
pub struct RecordFileError {
    path: String,
    source: std::io::Error,
}

/// A file of records, one line each; without a path they are discarded.
pub(crate) struct RecordFile {
    file: Option<Mutex<File>>,
    /// Whether the last record could not be written.
    fails: AtomicBool,
}

impl RecordFile {
    /// Opens a file to append to.
    pub(crate) fn open(path: Option<&str>) -> Result<Self, RecordFileError> {
        let open = |path: &str| {
            let file = OpenOptions::new().create(true).append(true).open(path);
            file.map(Mutex::new).map_err(|source| RecordFileError {
                path: path.to_owned(),
                source,
            })
        };
        Ok(Self {
            file: path.map(open).transpose()?,
            fails: AtomicBool::new(false),
        })
    }

    /// Appends a record. The first of several failures is logged.
    pub(crate) fn append(&self, record: &ShadowRecord) {
        let Some(file) = &self.file else { return };
        let written = serde_json::to_string(record)
            .map_err(std::io::Error::from)
            .and_then(|line| {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                // One call, so that a line is whole or missing.
                file.write_all(format!("{line}\n").as_bytes())
            });
        let failed_before = self.fails.swap(written.is_err(), Ordering::Relaxed);
        if let Err(error) = written
            && !failed_before
        {
            tracing::error!(%error, "decisions cannot be written to --observe-file; kerf shadow report will miss them");
        }
    }
}
