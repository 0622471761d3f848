//! Repacking: improves a whole plan. It takes a few nodes apart at a time, packs their pods anew and keeps what is cheaper, so that nodes
//! are split, merged and shrunk and swap pods. Nodes that are taken apart again are packed differently, by a fixed seed. Where the plan has
//! more nodes than it may have, its cheapest nodes are joined before. In the end all pods are placed again one by one, in the order of the
//! plan, so that every constraint is checked.
//!
//! Pods whose place other pods depend on stay: those with affinity, host ports or volumes, and those that affinity counts. A pod that a
//! topology constraint counts per domain moves within its domain only, so that no count changes.

mod exact;
mod few_nodes;
mod filling;
mod joining;
mod node;
mod quotes;
mod rebind;
mod recreate;
mod repack;
mod replay;
mod rules;
mod with_room;

pub(super) use node::Pins;
pub(crate) use rebind::{BoundPlace, rebind};
pub(super) use repack::repack;
pub(super) use replay::place_on_node;
pub(crate) use with_room::repack_with_room;
