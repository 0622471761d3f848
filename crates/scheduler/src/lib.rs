//! the solver: from a snapshot and pending pods to a plan.
