//! Work that writes leave for garbage collection.

use super::ObjectRef;
use crate::storage::Uid;

/// Finalizer of an object that waits for its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents are to be kept.
pub(crate) const ORPHAN: &str = "orphan";

/// One thing garbage collection has to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GarbageTask {
    /// The object with this uid is gone: its dependents may have to follow.
    OwnerGone(Uid),
    /// One dependent of this owner is gone: a foreground deletion may be complete.
    DependentGone(Uid),
    /// This object names an owner that does not exist, or that waits for it.
    Dependent(ObjectRef),
    /// This object is being deleted with [`FOREGROUND`] or [`ORPHAN`].
    OwnerMarked(ObjectRef),
    /// A namespace is being deleted: its content has to go.
    NamespaceMarked(String),
    /// An object of this namespace is gone.
    NamespaceShrunk(String),
}
