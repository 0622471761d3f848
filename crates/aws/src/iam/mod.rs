//! The IAM permissions the provider needs (section 31 of `docs/behaviour/aws.md`), from one list of its calls, and the role, queue and rules
//! that give them to a controller as a CloudFormation template or a Terraform configuration.

mod calls;
mod cloudformation;
mod setup;
mod statements;
mod terraform;

pub use calls::{CALLS, Call, Need};
pub use setup::{CONTROLLER_POLICY_MAX, Identity, ScopeError, Setup};
pub use statements::{PolicyPart, PolicyScope, Statement};
