//! The node class controller's decisions: conditions, validation by dry runs, and the end of a class (section 4 of
//! `docs/behaviour/aws.md`).

mod conditions;
mod dry_run;
mod finalize;

pub use conditions::{ConditionType, Finding, ReadyState, condition_types, finding, ready};
pub use dry_run::{DryRunStep, ValidationOutcome, candidate_types, dependencies, dry_run_outcome, dry_run_tenancy};
pub use finalize::{NAMES_IN_EVENT, waiting_message};
