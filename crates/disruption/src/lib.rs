//! Which nodes are disrupted, what replaces them, and why the others stay.
//!
//! The input is a [`kerf_model::snapshot::Snapshot`], the time, and the nodes that other commands hold. The output is [`Command`]s and, for
//! every node that stays, a typed [`Blocker`] or [`Unconsolidatable`]. Nothing here acts: the controllers taint, launch, wait and delete.
//! Prices are those of the model, in 10⁻¹² dollars per hour; costs of moving pods are in 2⁻²⁷ of one plain pod (DIS-046).
//!
//! A method has two steps: a filter that returns the [`Candidate`]s it may choose from ([`empty`], [`drifted`], [`underutilized`]), and a
//! decision over those and what budgets allow ([`emptiness`], [`drift`], [`Consolidation::multi`], [`Consolidation::single`]). Callers count
//! and report between the two. Consolidation and drift simulate the cluster without some nodes with a [`WhatIf`]; an [`Explainer`] says why a
//! node stays.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

mod allowance;
mod balance;
mod blocker;
mod bounds;
mod candidate;
mod command;
mod consolidation;
mod cost;
mod detection;
mod drift;
mod eligible;
mod emptiness;
mod explain;
mod leaving_pods;
mod multi;
mod pods;
mod protection;
mod replacement_options;
mod required_savings;
mod retirement;
mod same_type;
mod savings_per_pod;
mod settling;
mod several;
mod simulation;
mod single;
mod single_node_results;
mod static_drift;
mod text;
mod unconsolidatable;
mod unread;
mod validation;

pub use allowance::{Allowance, InvalidBudget, PoolAllowance, budget_faults};
pub use balance::{Balance, Judgement, PoolJudgement, SCORE_DIVISOR, Score, Totals};
pub use blocker::Blocker;
pub use candidate::{Candidate, Candidates, Class, candidates};
pub use command::{Command, Decision, dollars};
pub use consolidation::{Checker, Consolidation, Settings, unchecked};
pub use cost::{Cost, lifetime_remaining};
pub use detection::{instance_type_gone, requirements_drifted};
pub use drift::{drift, drifted};
pub use eligible::underutilized;
pub use emptiness::{Revalidated, emptiness, empty, revalidate};
pub use explain::{Explainer, Object, Obstacle, ObstacleKind};
pub use leaving_pods::{evictable, reschedulable, tolerates_disruption};
pub use multi::MultiNodeOutcome;
pub use pods::reschedulable_now;
pub use protection::{Protection, protection};
pub use retirement::{RETIRING, is_retiring, retiring};
pub use savings_per_pod::SavingsPerPod;
pub use settling::{closed, settles_at, settling_nodes};
pub use simulation::{Simulation, SimulationError, Unplaced, WhatIf, consolidation_options, what_if_options};
pub use single::{SingleNodeOutcome, interleaved};
pub use single_node_results::{SingleNodeResult, SingleNodeResults};
pub use static_drift::{static_drift, statically_drifted};
pub use unconsolidatable::{Unconsolidatable, UnconsolidatableNode};
pub use unread::{ProtectedNodes, Unread};
pub use validation::{Invalid, remaining_candidates, still_candidates, still_fits};
