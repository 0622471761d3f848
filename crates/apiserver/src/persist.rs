//! State on disk for `kerf up --data-dir`: an append-only log of JSON lines, compacted at start.
//!
//! Each write is one line, so that a crash can tear the last line only; a torn last line is dropped, any other damage is an
//! error that names the line.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::json;
use crate::state::State;
use crate::storage::{Change, Stored};

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

/// The open log.
#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    failed: bool,
}

impl Journal {
    /// Reads the log of `folder` into `state`, writes it anew without what is superseded, and opens it.
    pub(crate) fn open(folder: &Path, state: &mut State) -> Result<Self, OpenError> {
        let path = folder.join(LOG);
        let io_error = |path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        if path.exists() {
            replay(&path, state)?;
        }
        let new = folder.join(NEW_LOG);
        compact(&new, state).map_err(io_error(&new))?;
        fs::rename(&new, &path).map_err(io_error(&path))?;
        let file = OpenOptions::new().append(true).open(&path).map_err(io_error(&path))?;
        Ok(Self {
            file,
            path,
            failed: false,
        })
    }

    /// Notes one write. The server goes on without its log when the disk fails, and says so once.
    pub(crate) fn append(&mut self, group: &str, plural: &str, change: Change, object: &Stored) {
        if self.failed {
            return;
        }
        let line = match change {
            Change::Added | Change::Modified => put_line(group, plural, object),
            Change::Deleted => {
                let line = json!({
                    "group": group, "resource": plural, "key": &*object.key, "deleted": object.version,
                });
                format!("{line}\n").into_bytes()
            }
        };
        if let Err(error) = self.file.write_all(&line) {
            self.failed = true;
            tracing::error!(path = %self.path.display(), %error, "state is no longer written to disk");
        }
    }
}

fn put_line(group: &str, plural: &str, object: &Stored) -> Vec<u8> {
    let (group, plural, key) = (Value::from(group), Value::from(plural), Value::from(&*object.key));
    let mut line = format!("{{\"group\":{group},\"resource\":{plural},\"key\":{key},\"object\":").into_bytes();
    line.extend_from_slice(object.json());
    line.extend_from_slice(b"}\n");
    line
}

fn replay(path: &Path, state: &mut State) -> Result<(), OpenError> {
    let file = File::open(path).map_err(|source| OpenError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut lines = BufReader::new(file).split(b'\n').enumerate().peekable();
    while let Some((i, line)) = lines.next() {
        let line = line.map_err(|source| OpenError::Io {
            path: path.to_owned(),
            source,
        })?;
        if line.is_empty() {
            continue;
        }
        let applied = serde_json::from_slice(&line)
            .map_err(|e| e.to_string())
            .and_then(|entry: Value| apply(state, &entry));
        if let Err(why) = applied {
            if lines.peek().is_none() {
                tracing::warn!(path = %path.display(), line = i + 1, "dropped a torn last line");
                return Ok(());
            }
            return Err(OpenError::Damaged {
                path: path.to_owned(),
                line: i + 1,
                why,
            });
        }
    }
    Ok(())
}

fn apply(state: &mut State, entry: &Value) -> Result<(), String> {
    let text = |field: &str| {
        entry
            .get(field)
            .and_then(Value::as_str)
            .ok_or_else(|| format!("no {field}"))
    };
    let (group, plural, key) = (text("group")?, text("resource")?, text("key")?);
    let table = state
        .table_id(group, plural)
        .ok_or_else(|| format!("no resource {plural} of group {group:?}"))?;
    if let Some(version) = json::at(entry, &["deleted"]).as_u64() {
        state.unrestore(table, key, version);
        return Ok(());
    }
    let object = json::at(entry, &["object"]);
    if !object.is_object() {
        return Err("no object".to_owned());
    }
    state.restore(table, key, object);
    Ok(())
}

fn compact(path: &Path, state: &State) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    // Tables come in the order in which they were made: definitions first, then what they define.
    for (id, table) in state.tables() {
        let (group, plural) = state.table_name(id);
        for object in table.range(None) {
            out.write_all(&put_line(group, plural, object))?;
        }
    }
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}
