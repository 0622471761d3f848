//! Ends a Node that is being deleted: taint, drain, volumes, instance, finalizer (the controllers `node.termination` and
//! `eviction-queue`).
//!
//! [`kerf_lifecycle`] decides which pods are evicted next, by when, and which volumes are waited for. All intent is in the API: the Node's
//! deletion, its taint, the claim's conditions and deadline. A pass can be interrupted anywhere.

mod attachments;
mod controller;
mod eviction;
mod pass;

pub(crate) use controller::Termination;
pub(crate) use eviction::Evictions;
