//! What chaos worlds share, whatever their cloud: who makes a write, what is seen of a world, and the invariants that watch it. Other crates
//! use this one as a dev-dependency only.
//!
//! In: every write to the embedded API server, what happens to instances, and what the driver of a world says of it. Out: violations and a log.
//! A world that cannot be read is a mistake in the test, so that code here may panic.

mod caller;
mod invariants;
mod observation;
mod view;

pub use caller::{Caller, KerfCalls, Marked, Named};
pub use observation::{Instances, Observation};
pub use view::{Budget, Claim, Instance, LEASE, Node, Pdb, Pod, Pool, Texts, View};
