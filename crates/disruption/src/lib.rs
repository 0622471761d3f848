//! Which nodes should go, what replaces them, and why not the others.
//!
//! In come a [`kerf_model::snapshot::Snapshot`], the time and the nodes other commands already hold; out go [`Command`]s and, for every node
//! that stays, a typed [`Blocker`] or [`Stay`]. Nothing here acts: the controllers taint, launch, wait and delete. Prices are those of the
//! model, in 10⁻¹² dollars per hour; costs of moving pods are in 2⁻²⁷ of one plain pod (DIS-046).
//!
//! A method is two steps: a filter that says which [`Candidate`]s it may choose from ([`empty`], [`drifted`]), and a decision over those and
//! what budgets leave ([`emptiness`], [`drift`]). Callers count and report between the two.

mod allowance;
mod blocker;
mod candidate;
mod command;
mod cost;
mod detection;
mod drift;
mod emptiness;
mod pods;
mod protection;
mod settling;
mod simulation;

pub use allowance::{Allowance, PoolAllowance, budget_faults};
pub use blocker::Blocker;
pub use candidate::{Candidate, Candidates, Class, candidates};
pub use command::{Command, Decision, Held, Stay};
pub use cost::{Cost, lifetime_remaining};
pub use detection::{instance_type_gone, requirements_drifted};
pub use drift::{drift, drifted};
pub use emptiness::{Revalidated, emptiness, empty, revalidate};
pub use pods::{evictable, reschedulable, reschedulable_now};
pub use protection::{Protection, protection};
pub use settling::{settles_at, settling_nodes};
pub use simulation::{Simulation, SimulationError, simulate};
