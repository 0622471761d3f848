//! Which nodes should go, what replaces them, and why not the others.
//!
//! In come a [`kerf_model::snapshot::Snapshot`], the time and the nodes other commands already hold; out go [`Command`]s and, for every node that
//! stays, a typed [`Blocker`]. Nothing here acts: the controllers taint, launch, wait and delete. Prices are those of the model, in 10⁻¹²
//! dollars per hour; costs of moving pods are in thousandths of one plain pod (DIS-046).

mod allowance;
mod blocker;
mod candidate;
mod command;
mod cost;
mod drift;
mod emptiness;
mod pods;
mod simulation;

pub use allowance::{Allowance, PoolAllowance};
pub use blocker::Blocker;
pub use candidate::{Candidate, Candidates, Class, candidates};
pub use command::{Command, Decision, Held};
pub use cost::Cost;
pub use drift::drift;
pub use emptiness::emptiness;
pub use pods::{evictable, reschedulable, reschedulable_now};
pub use simulation::{Simulation, SimulationError, simulate};
