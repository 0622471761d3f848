//! The end of a Node: it is tainted, drained, waits for its volumes, its instance ends, and then it may go (the controllers
//! `node.termination` and `eviction-queue`).
//!
//! Which pods go next ([drain]), by when ([deadline]) and which volumes are waited for ([volumes]) is decided by pure functions. All
//! intent is in the API: the Node's deletion, its taint, the claim's conditions and deadline. A pass can be cut off anywhere.

mod attachments;
mod controller;
pub(crate) mod deadline;
mod drain;
mod eviction;
mod pass;
mod volumes;

pub(crate) use controller::Termination;
pub(crate) use eviction::Evictions;
