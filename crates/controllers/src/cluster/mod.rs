//! The cluster as controllers see it: the mirror behind one lock, and the listeners that are notified of changes.
//!
//! The lock is held for one fold or one look-up and never across an await. Queries share it; only changes of the mirror need it exclusively.
//! Readers get `Arc`s and snapshots, which never change.

mod capacity_buffers;
mod comparison;
mod conventions;
mod fold;
mod handle;
mod launch_lock;
mod published;
mod unreadable;

pub use conventions::conventions_of;
pub use handle::Cluster;

pub(crate) use capacity_buffers::key as buffer_key;
pub(crate) use comparison::{CheckedKind, Discrepancy, Listed, compare, listed, version};
pub(crate) use conventions::startup_taints;
pub(crate) use fold::Watched;
#[cfg(test)]
pub(crate) use fold::relist;
pub(crate) use launch_lock::claims_of;
#[cfg(test)]
pub(crate) use unreadable::found;
pub(crate) use unreadable::{Unreadable, Unreadables};
