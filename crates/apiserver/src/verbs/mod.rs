//! The verbs: each is a function of the locked state and one request, free of I/O.

mod create;
mod delete;
mod list;
mod ownership;
mod patch;
mod update;
mod watch;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::registry::Resource;
use crate::schema::FieldValidation;
use crate::storage::Stored;

pub(crate) use list::{ListRequest, Page, parse_filter};
pub(crate) use patch::PatchBody;
pub(crate) use update::nothing_holds;
pub(crate) use watch::{WatchRequest, open as watch};

/// What all writes have in common.
#[derive(Debug)]
pub(crate) struct Write<'a> {
    pub(crate) resource: &'a Resource,
    /// Empty for cluster-scoped resources.
    pub(crate) namespace: &'a str,
    pub(crate) now: Timestamp,
    pub(crate) dry_run: bool,
    pub(crate) validation: FieldValidation,
    /// Who writes, for field ownership.
    pub(crate) manager: &'a str,
    /// The subresource written through, empty for the object itself.
    pub(crate) subresource: &'static str,
    /// The write is an apply, which has kept the books of field ownership itself.
    pub(crate) applied: bool,
    /// Collected for the Warning headers.
    pub(crate) warnings: Vec<String>,
}

/// Which part of an object a write is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Main,
    Status,
    /// Writes of the server itself (binding, scale, garbage collection): nothing is reset and nothing is admitted.
    Internal,
}

/// What a write left behind.
#[derive(Debug)]
pub(crate) enum Written {
    /// The stored object; `true` when it is new.
    Stored(Arc<Stored>, bool),
    /// What a dry run would have stored; `true` when it would be new.
    Draft(Value, bool),
    /// The object is gone; this was its last state.
    Gone(Value),
}

impl Written {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Stored(stored, _) => stored.to_value(),
            Self::Draft(value, _) | Self::Gone(value) => value,
        }
    }
}
