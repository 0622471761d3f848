//! The keys of objects and machines.

use std::sync::Arc;

/// Namespace (empty for cluster-wide kinds) and name. The order of keys is the order of snapshots.
pub(crate) type Key = (Arc<str>, Arc<str>);

/// The key of a machine.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum MachineKey {
    /// The provider's id (SCH-054).
    Provider(Arc<str>),
    /// The name of an unmanaged Node without provider id.
    Node(Arc<str>),
    /// The name of a NodeClaim that is not launched.
    Planned(Arc<str>),
}
