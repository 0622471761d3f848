//! Nodes that have been unhealthy for too long (the controller `node.health`; LIF-145 to LIF-156).
//!
//! What unhealthy means is said by the provider (behind the gate `NodeRepair`, as upstream has it) and by NodeRepairPolicies, which are
//! Kerf's own and need no gate: who creates one wants it. Without any, behaviour is upstream's. On the nodes a policy selects, it takes
//! the place of what the provider says about the same condition and status.
//!
//! - [`Repair`] acts on nodes.
//! - [`RepairStatus`] writes what policies find into their status.

mod controller;
mod findings;
mod policies;
mod policy;
mod status;
mod telling;

pub(crate) use controller::Repair;
pub(crate) use policies::Policies;
pub(crate) use status::RepairStatus;
