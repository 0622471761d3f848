//! Provisioning by the real controllers on an embedded cluster, in virtual time: what is planned, when, and which events say so.

#![expect(clippy::float_cmp, reason = "counters count whole things")]

mod bad_objects;
mod decisions;
mod event_orders;
mod events;
mod fairness;
mod metric;
mod no_duplicates;
mod overlays;
mod passes;
mod planning_during_launch;
mod reused_index;
mod what_ifs;
