//! Takes away nodes that have been unhealthy for too long (the controller `node.health`; LIF-145 to LIF-156).
//!
//! The provider says what unhealthy means (behind the gate `NodeRepair`, as upstream has it), and so do NodeRepairPolicies, which are
//! Kerf's own and need no gate: a user who creates one wants it. Without any policy, behaviour is upstream's. The rules are in
//! [`kerf_lifecycle::repair`].
//!
//! - [`Repair`] acts on nodes.
//! - [`RepairStatus`] writes what policies find into their status.

mod conditions;
mod controller;
mod events;
mod policies;
mod policy;
mod status;

pub use conditions::{carrier, fleet_node, node_conditions, unhealthy_conditions};
pub(crate) use controller::Repair;
pub(crate) use policies::Policies;
pub use policy::read as read_repair_policy;
pub(crate) use status::RepairStatus;
