//! Shadow mode: decisions beside a running autoscaler that carries out its own.
//!
//! The cluster is watched as usual, through a client that only reads. Pods that begin to wait start a pass of provisioning, and rounds of
//! disruption follow each other, with the functions that decide for the controllers. Nothing is carried out: decisions are logged, counted
//! and written as [`ShadowRecord`]s, beside what the other autoscaler did.

mod machines;
mod observer;
mod record_file;
mod shadow_record;

pub(crate) use observer::ShadowObserver;
pub(crate) use record_file::RecordFile;
pub use record_file::RecordFileError;
pub use shadow_record::{Machine, ShadowRecord};
