//! Chaos worlds, independent of the cloud: what they start with, what users do in them, the caller of each write, a view of the cluster, and the
//! rules that must hold. Other crates use this one as a dev-dependency only.
//!
//! Input: every write to the embedded API server, the launches and ends of instances, and the steps of the scenario. Output: violations and a log.
//! A world that cannot be read is a mistake in the test, so that code here may panic.

mod caller;
mod debug_log;
mod dice;
mod empty_world;
mod invariants;
mod observation;
mod processes;
mod users;
mod view;
mod virtual_time;

pub use caller::{Caller, KerfCalls, Marked, Named};
pub use debug_log::debug_log;
pub use dice::Dice;
pub use empty_world::{EmptyWorld, WORLD_START};
pub use observation::{Instances, Observation};
pub use processes::first_end;
pub use users::{ClusterObject, NamespacedObject, Object, create, delete, merge, pick};
pub use view::{Budget, Claim, Instance, LEASE, Node, Pdb, Pod, Pool, Texts, View};
pub use virtual_time::in_virtual_time;
