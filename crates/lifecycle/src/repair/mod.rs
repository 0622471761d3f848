//! Which nodes have been unhealthy for too long, and what is done about them (LIF-147 to LIF-150).
//!
//! The provider has rules for conditions it calls unhealthy. NodeRepairPolicies are Kerf's own: on the nodes a policy selects, it takes
//! the place of the provider's rules about the same condition and status. [`findings`] says what is unhealthy and since when, [`decide`]
//! whether it may be acted on now.

mod decision;
mod findings;
mod policy;

pub use decision::{Block, Carrier, DrainBudget, DrainLimits, Fleet, FleetNode, Pause, Reason, decide, pauses};
pub use findings::{Condition, Finding, Health, NodeConditions, Rule, findings};
pub use policy::{Action, Policy, UnhealthyCondition};
