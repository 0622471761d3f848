//! Topology spread, affinity and anti-affinity (section 15): groups shared by all pods with an equal constraint, counts by domain, and what
//! they allow a pod.

mod allowed;
mod counts;
mod groups;
mod keys;

pub(crate) use allowed::{Allowed, HostSpread, permitted};
pub(crate) use counts::{Counts, GroupCounts, Place};
pub(crate) use groups::{Filter, FilterId, Group, GroupId, GroupKey, GroupKind, Groups, Selection, selects};
pub(crate) use keys::{KeyTable, Keys, TopologyKey};
