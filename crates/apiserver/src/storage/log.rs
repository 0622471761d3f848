//! State on disk for `kerf up --data-dir`: an append-only log of JSON lines, compacted at start.
//!
//! Each write is one line, so that a crash can tear the last line only; a torn last line is dropped, any other damage is an
//! error that names the line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Change, Stored};

const LOG: &str = "objects.jsonl";
const NEW_LOG: &str = "objects.jsonl.new";

/// Why the state on disk could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or the log cannot be read or written.
    #[error("cannot use {path}: {source}", path = path.display())]
    Io {
        /// What could not be used.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line of the log is not what this server writes.
    #[error("line {line} of {path} is damaged ({why}): restore the file from a copy, or move it away to begin anew", path = path.display())]
    Damaged {
        /// The log.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
}

/// One write, as the log records it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogEntry<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) change: Change,
    /// The object after the write; of a deletion its last state.
    pub(crate) object: &'a Stored,
}

impl LogEntry<'_> {
    fn line(&self) -> Vec<u8> {
        let (group, plural, key) = (
            Value::from(self.group),
            Value::from(self.plural),
            Value::from(&*self.object.key),
        );
        match self.change {
            Change::Added | Change::Modified => {
                let mut line =
                    format!("{{\"group\":{group},\"resource\":{plural},\"key\":{key},\"object\":").into_bytes();
                line.extend_from_slice(self.object.json());
                line.extend_from_slice(b"}\n");
                line
            }
            Change::Deleted => {
                let line = json!({"group": group, "resource": plural, "key": key, "deleted": self.object.version});
                format!("{line}\n").into_bytes()
            }
        }
    }
}

/// The open log of one folder.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    failed: bool,
}

impl Log {
    /// Opens the log of `folder`; both are made when missing.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        let path = folder.join(LOG);
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let file = append_to(&path).map_err(io_error(&path))?;
        Ok(Self {
            file,
            path,
            failed: false,
        })
    }

    /// Passes every line to `apply`, oldest first. A torn last line is dropped: a crash cut it off while it was written.
    pub(crate) fn replay(&self, mut apply: impl FnMut(&Value) -> Result<(), String>) -> Result<(), OpenError> {
        let file = File::open(&self.path).map_err(io_error(&self.path))?;
        let mut lines = BufReader::new(file).split(b'\n').enumerate().peekable();
        while let Some((i, line)) = lines.next() {
            let line = line.map_err(io_error(&self.path))?;
            if line.is_empty() {
                continue;
            }
            let applied = serde_json::from_slice(&line)
                .map_err(|e| e.to_string())
                .and_then(|entry: Value| apply(&entry));
            if let Err(why) = applied {
                if lines.peek().is_none() {
                    tracing::warn!(path = %self.path.display(), line = i + 1, "dropped a torn last line");
                    return Ok(());
                }
                return Err(OpenError::Damaged {
                    path: self.path.clone(),
                    line: i + 1,
                    why,
                });
            }
        }
        Ok(())
    }

    /// Replaces the log by one that holds only `entries`. After a crash either the old or the new log is there, whole.
    pub(crate) fn rewrite<'a>(&mut self, entries: impl Iterator<Item = LogEntry<'a>>) -> io::Result<()> {
        let new = self.path.with_file_name(NEW_LOG);
        let mut out = BufWriter::new(File::create(&new)?);
        for entry in entries {
            out.write_all(&entry.line())?;
        }
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&new, &self.path)?;
        self.file = append_to(&self.path)?;
        Ok(())
    }

    /// Appends one write. When the disk fails, the server continues without its log and logs one error.
    pub(crate) fn append(&mut self, entry: LogEntry<'_>) {
        if self.failed {
            return;
        }
        if let Err(error) = self.file.write_all(&entry.line()) {
            self.failed = true;
            tracing::error!(path = %self.path.display(), %error, "state is no longer written to disk");
        }
    }

    /// An I/O error of this log.
    pub(crate) fn error(&self, source: io::Error) -> OpenError {
        io_error(&self.path)(source)
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io {
        path: path.clone(),
        source,
    }
}
