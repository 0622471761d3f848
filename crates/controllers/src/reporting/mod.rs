//! Metrics about the state of the cluster: sync, nodes, pods, pools and conditions (sections 8 and 9 of `docs/behaviour/operations.md`).

mod cluster_state;
mod conditions;
mod label_names;
mod nodes;
mod pod_progress;
mod pods;
mod pools;
mod units;

pub(crate) use cluster_state::ClusterState;
pub(crate) use conditions::ConditionReport;
pub use label_names::label_names;
pub(crate) use nodes::NodeReport;
pub(crate) use pods::PodReport;
pub(crate) use pools::PoolReport;
