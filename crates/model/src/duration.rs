//! duration.
