//! Which nodes have been unhealthy for too long, and what is done about them (LIF-147 to LIF-150).
//!
//! The provider has rules for conditions it calls unhealthy. NodeRepairPolicies are Kerf's own: on the nodes a policy selects, it takes
//! the place of the provider's rules about the same condition and status.

mod findings;
mod policy;

pub use findings::{Condition, Finding, Health, NodeConditions, Rule, findings, is_unhealthy, is_within_provider_cap};
pub use policy::{Action, Policy, UnhealthyCondition};
