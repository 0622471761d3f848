//! Data structures of the hot path: typed ids, bit sets, dense resource amounts, memo tables.

pub(crate) mod amounts;
pub(crate) mod bits;
pub(crate) mod id_set;
pub(crate) mod ids;
pub(crate) mod memo;
