//! Provisioning by the real controllers on an embedded cluster, in virtual time: what is planned, when, and what is told of it.

#![expect(clippy::float_cmp, reason = "counters count whole things")]

mod decisions;
mod fairness;
mod kept_index;
mod metric;
mod no_duplicates;
mod no_freeze;
mod orders;
mod overlays;
mod passes;
mod poison;
mod telling;
mod what_ifs;
