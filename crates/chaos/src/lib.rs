//! The invariants of chaos worlds, independent of the cloud: the caller of each write, a view of the cluster, and the rules that must hold. Other
//! crates use this one as a dev-dependency only.
//!
//! Input: every write to the embedded API server, the launches and ends of instances, and the steps of the scenario. Output: violations and a log.
//! A world that cannot be read is a mistake in the test, so that code here may panic.

mod caller;
mod dice;
mod invariants;
mod observation;
mod view;

pub use caller::{Caller, KerfCalls, Marked, Named};
pub use dice::Dice;
pub use observation::{Instances, Observation};
pub use view::{Budget, Claim, Instance, LEASE, Node, Pdb, Pod, Pool, Texts, View};
