//! Server-side apply: field ownership, merging and conflicts.
//!
//! In: the stored object, what a manager applies, and a [`MergeSchema`] that knows which lists are maps or sets. Out: the
//! merged object with its `managedFields`, or the conflicts. Ordinary writes update `managedFields` with [`track_update`].
//! A caller whose resource has a status subresource hands in only the part of the object its endpoint may write.

mod apply;
mod compare;
mod field_set;
mod managed_fields;
mod merge;
mod merge_schema;

pub(crate) use apply::{ApplyError, Writer, server_side_apply, track_update, was_applied};
pub(crate) use merge_schema::{BuiltinSchema, MergeSchema};

#[cfg(test)]
mod tests;
