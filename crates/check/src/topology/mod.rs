//! Topology: the domains machines are in, and the rules of spread, affinity and anti-affinity over them.

pub(crate) mod affinity;
pub(crate) mod anti_affinity;
pub(crate) mod binding_order;
pub(crate) mod site;
pub(crate) mod spread;
