//! The request and the result that create, update, patch and apply have in common.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use crate::registry::Resource;
use crate::schema::FieldValidation;
use crate::storage::Stored;

/// A write request without its object.
#[derive(Debug)]
pub(crate) struct WriteRequest<'a> {
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
    /// The write is an apply, which has updated `managedFields` itself.
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

/// The result of a write.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The stored object; `true` when it is new.
    Stored(Arc<Stored>, bool),
    /// What a dry run would have stored; `true` when it would be new.
    Draft(Value, bool),
    /// The object was removed; this was its last state.
    Gone(Value),
}

impl WriteResult {
    pub(crate) fn into_value(self) -> Value {
        match self {
            Self::Stored(stored, _) => stored.to_value(),
            Self::Draft(value, _) | Self::Gone(value) => value,
        }
    }
}
