//! Topology spread, affinity and anti-affinity (section 15 of `docs/behaviour/scheduling.md`): one group per distinct constraint, and how many
//! pods each group counts where.

mod claim_domains;
mod counts;
mod groups;
mod keys;

pub(crate) use claim_domains::ClaimDomains;
pub(crate) use counts::{ClaimId, Counts, Destination, GroupCounts, NewNode};
pub(crate) use groups::{Group, GroupId, GroupKey, GroupKind, Groups, NodeFilter, NodeFilterId, Selection, selects};
pub(crate) use keys::{Domain, DomainId, KeyId, KeyTable, TopologyKey, TopologyKeys};
