//! Why a pod has no place: the first cause per pool and per existing node (section 22 of `docs/behaviour/scheduling.md`), and what is missing.

mod explain;
mod labels;
mod limits;
mod nodes;
mod pools;
mod reason;
mod text;
mod topology;
mod types;

pub(crate) use explain::reasons;
pub(crate) use pools::pool_refusals;
