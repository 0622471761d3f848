//! The two decisions: which machines to launch for pods that wait, and which nodes to disrupt.
//!
//! The input is a [`kerf_model::snapshot::Snapshot`], the actions in flight ([`kerf_model::in_flight::InFlight`]), [`Settings`] and the time, as
//! [`Inputs`]. The output is a [`Provision`] (a plan) or a [`Round`] (commands, how long to wait before each is validated, and the obstacles
//! of every other node). The controllers carry them out and report them; `kerf simulate` and `kerf explain` print them. Both call the same
//! functions, so an offline answer is the answer of a running controller.
//!
//! [`provision()`] says of each pod that gets no machine why not, in [`kerf_model::plan::Plan::unschedulable`]; the causes come from `kerf_scheduler`.
//! [`disrupt()`] says of each node that stays why: blocked nodes are in [`Evaluation::sorted`], candidates in [`Evaluation::staying`]; the reasons
//! come from `kerf_disruption`.
//!
//! Nothing here has a clock, I/O or randomness. [`Memory`] holds what one decision leaves for the next. It changes only how long a decision
//! takes, and which candidates come first after a search that ran out of time.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

mod after_commands;
mod buffer_outcome;
mod candidate_cache;
mod carried_out;
mod consolidate;
mod constraint_cost;
mod destinations;
mod disrupt;
mod drift_obstacles;
mod evaluation;
mod fairness;
mod forecast;
mod gap;
mod held;
mod inputs;
mod memory;
mod method;
mod pause;
mod planner;
mod provision;
mod rebalance;
mod retire;
mod shadow;
mod static_drift;
mod validate;
mod verify;

pub use buffer_outcome::{BufferFinding, BufferOutcome, buffer_finding};
pub use candidate_cache::SortedNodes;
pub use constraint_cost::{Constraint, PlanCost, cost_without};
pub use destinations::destinations;
pub use disrupt::disrupt;
pub use evaluation::{Evaluation, Progress, Round};
pub use forecast::{Forecast, forecast};
pub use gap::{GapCause, gap_causes};
pub use inputs::{Inputs, Settings, UnreadNodes};
pub use memory::{Memory, PreparedCache};
pub use method::Method;
pub use provision::{Batch, NoPlan, Provision, provision};
pub use rebalance::{Rebalance, RebalanceStep, RebalanceTarget, rebalance};
pub use retire::retire;
pub use shadow::{ScaleUp, StandingChange, StandingCommand, StandingCommands, Unanswered, before_answers};
pub use validate::{Validation, revalidate_candidates, validate};
pub use verify::violations;
