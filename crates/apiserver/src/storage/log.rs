//! State on disk for `kerf up --data-dir`: an append-only log of JSON lines in a folder that one process owns.
//!
//! Each write is one line, so that a crash can tear the last line only. A torn last line is dropped; any other damage is an error that
//! names the line. The log is rewritten without superseded lines at start, and again whenever it has grown enough.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufRead, BufReader, BufWriter, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{Change, Stored};

const LOG: &str = "objects.jsonl";
const NEW_LOG: &str = "objects.jsonl.new";
/// Locked by the process that owns the folder; holds its pid.
const LOCK: &str = "lock";

/// Only the owner may enter the folder or read its files: they hold Secrets.
const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Smallest growth (bytes) after which the log is rewritten. Rewriting a log of this size takes less than 0.1 s.
const GROWTH_MIN: u64 = 16 * 1024 * 1024;

/// Why the state on disk could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder or the log cannot be read or written.
    #[error("cannot use {path}", path = path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path of the folder is a file.
    #[error("{path} is not a folder: name a folder, which is made when it is missing", path = path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another process owns the folder.
    #[error("{path} is in use by process {pid}: stop that process, or name another folder", path = path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The pid of the owner as its lock file has it; `unknown` when that is empty.
        pid: String,
    },
    /// A line of the log is not what this server writes.
    #[error("line {line} of {path} is damaged ({why}): restore the file from a copy, or move it away to start with an empty cluster", path = path.display())]
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
        let (group, plural) = (Value::from(self.group), Value::from(self.plural));
        let key = Value::from(&*self.object.key);
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

/// The log of one folder, owned by this process as long as the value lives.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    path: PathBuf,
    /// Holds the lock of the folder.
    _lock: File,
    /// Bytes of the log.
    size: u64,
    /// Bytes at which the log is rewritten.
    rewrite_at: u64,
    /// A write failed; nothing is written any more.
    failed: bool,
}

impl Log {
    /// Locks `folder` and opens its log; both are made when missing.
    pub(crate) fn open(folder: &Path) -> Result<Self, OpenError> {
        let lock = lock(folder)?;
        let path = folder.join(LOG);
        let file = append_to(&path).map_err(io_error(&path))?;
        let size = file.metadata().map_err(io_error(&path))?.len();
        Ok(Self {
            file,
            path,
            _lock: lock,
            size,
            rewrite_at: u64::MAX,
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

    /// Replaces the log by one that holds only `entries` and the server's `version`, which deletions may have raised above that of every
    /// object. After a crash either the old or the new log is there, whole.
    pub(crate) fn rewrite<'a>(
        &mut self,
        version: u64,
        entries: impl Iterator<Item = LogEntry<'a>>,
    ) -> Result<(), OpenError> {
        self.try_rewrite(version, entries).map_err(io_error(&self.path))
    }

    fn try_rewrite<'a>(&mut self, version: u64, entries: impl Iterator<Item = LogEntry<'a>>) -> io::Result<()> {
        let new = self.path.with_file_name(NEW_LOG);
        // One is left behind by a crash during a rewrite.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(FILE_MODE)
            .open(&new)?;
        let mut out = BufWriter::new(file);
        writeln!(out, "{}", json!({"version": version}))?;
        for entry in entries {
            out.write_all(&entry.line())?;
        }
        let written = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        written.sync_all()?;
        let size = written.metadata()?.len();
        fs::rename(&new, &self.path)?;
        self.file = written;
        self.size = size;
        self.rewrite_at = rewrite_at(size);
        // A rename survives a power failure only when the folder is synchronised.
        self.path
            .parent()
            .map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }

    /// Whether the log has grown so much that it should be rewritten.
    pub(crate) fn is_overgrown(&self) -> bool {
        self.size >= self.rewrite_at && !self.failed
    }

    /// Logs that a rewrite failed, and waits for as much growth again before the next one.
    pub(crate) fn put_off_rewrite(&mut self, error: &OpenError) {
        self.rewrite_at = rewrite_at(self.size);
        tracing::warn!(path = %self.path.display(), error = error as &dyn std::error::Error, "the log could not be compacted");
    }

    /// Appends one write. When the disk fails, the server continues without its log and logs one error.
    pub(crate) fn append(&mut self, entry: LogEntry<'_>) {
        if self.failed {
            return;
        }
        let line = entry.line();
        match self.file.write_all(&line) {
            Ok(()) => self.size += line.len() as u64,
            Err(error) => {
                self.failed = true;
                tracing::error!(path = %self.path.display(), %error, "state is no longer written to disk");
            }
        }
    }
}

/// A log is rewritten when it is twice as large as after the last rewrite: the cost per write stays constant.
fn rewrite_at(size: u64) -> u64 {
    size.saturating_mul(2).max(size.saturating_add(GROWTH_MIN))
}

/// Makes `folder` and locks it for this process.
fn lock(folder: &Path) -> Result<File, OpenError> {
    if folder.exists() && !folder.is_dir() {
        return Err(OpenError::NotAFolder {
            path: folder.to_owned(),
        });
    }
    DirBuilder::new()
        .recursive(true)
        .mode(FOLDER_MODE)
        .create(folder)
        .map_err(io_error(folder))?;
    let path = folder.join(LOCK);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(io_error(&path))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let pid = fs::read_to_string(&path).unwrap_or_default();
            let pid = match pid.trim() {
                "" => "unknown",
                pid => pid,
            };
            return Err(OpenError::InUse {
                path: folder.to_owned(),
                pid: pid.to_owned(),
            });
        }
        Err(TryLockError::Error(source)) => return Err(OpenError::Io { path, source }),
    }
    // Folders and files of older versions were readable by everybody.
    fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE)).map_err(io_error(folder))?;
    file.set_len(0)
        .and_then(|()| file.write_all(std::process::id().to_string().as_bytes()))
        .map_err(io_error(&path))?;
    Ok(file)
}

fn append_to(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(FILE_MODE)
        .open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> OpenError + use<> {
    let path = path.to_owned();
    move |source| OpenError::Io {
        path: path.clone(),
        source,
    }
}
