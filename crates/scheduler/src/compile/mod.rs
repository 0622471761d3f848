//! From the input to the interned problem: a snapshot becomes [`prepared::Prepared`], a question about it [`problem::Problem`].

pub(crate) mod catalogue;
pub(crate) mod classes;
pub(crate) mod daemons;
mod domains;
mod labels;
pub(crate) mod limits;
mod node_filters;
pub(crate) mod prepared;
pub(crate) mod problem;
pub(crate) mod queue;
pub(crate) mod relaxation;
pub(crate) mod requirements;
mod running_counts;
mod running_pods;
mod selector_keys;
mod taints;
pub(crate) mod targets;
pub(crate) mod templates;
pub(crate) mod topology;
