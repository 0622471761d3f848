//! Topology: where machines stand, and how spread and affinity count the pods on them.

pub(crate) mod arrivals;
pub(crate) mod repulsion;
pub(crate) mod site;
pub(crate) mod tracker;
