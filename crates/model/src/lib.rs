//! the domain of node autoscaling as plain data.
