//! Table output for kubectl.
