//! Everything the server knows, behind one lock, and every write to it.

mod bootstrap;
mod custom_resources;
mod garbage;
mod objects;
mod observer;
mod quotas;
mod random;
mod recovery;
mod shared;

pub(crate) use garbage::{FOREGROUND, GarbageTask, ORPHAN};
pub(crate) use objects::{ObjectRef, State, seconds};
pub(crate) use observer::Observer;
pub use observer::Write;
pub use recovery::Backup;
pub use shared::Clock;
pub(crate) use shared::Shared;
