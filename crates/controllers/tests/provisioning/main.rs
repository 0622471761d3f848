//! Provisioning by the real controllers on an embedded cluster, in virtual time: what is planned, when, and what is told of it.

#![expect(clippy::float_cmp, reason = "counters count whole things")]

#[path = "../shared/captured.rs"]
mod captured;
mod decisions;
mod fairness;
#[path = "../simulation/harness.rs"]
#[allow(dead_code, reason = "another suite uses the rest")]
mod harness;
mod kept_index;
#[path = "../simulation/logs.rs"]
mod logs;
mod metric;
mod no_duplicates;
mod no_freeze;
mod orders;
mod overlays;
mod passes;
mod poison;
mod telling;
mod what_ifs;
#[path = "../simulation/wire.rs"]
#[allow(dead_code, reason = "another suite uses the rest")]
mod wire;
