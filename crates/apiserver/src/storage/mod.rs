//! Stored objects: compact JSON bytes with the little that selectors need beside them, one ordered table per resource,
//! a bounded history per table that serves watches and older snapshots, and the log on disk.

mod change;
mod log;
mod object;
mod page;
mod recent;
mod selector;
mod table;

pub use change::Change;
pub use log::OpenError;
pub(crate) use log::{Log, LogEntry};
pub(crate) use object::{FieldPath, Stored, Uid, named_event_line};
pub(crate) use page::Page;
pub(crate) use recent::Recent;
pub(crate) use selector::{FieldSelector, Filter, LabelSelector};
pub(crate) use table::{Event, Table, TableId};
