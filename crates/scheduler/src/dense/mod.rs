//! Data structures of the hot path: bit sets, dense resource amounts, memo tables.

pub(crate) mod amounts;
pub(crate) mod bits;
pub(crate) mod ids;
pub(crate) mod memo;
