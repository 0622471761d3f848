//! The real controllers on an embedded cluster, in virtual time.

#![expect(clippy::float_cmp, reason = "counters count whole things")]

mod ages;
mod clouds;
mod concurrency;
mod consolidation;
mod consolidation_churn;
mod consolidation_retirement;
mod consolidation_turns;
mod crash;
mod deaths;
mod disruption_loop;
mod disruption_queue;
mod disruption_scale;
mod disruption_suites;
mod doubles;
mod drift;
mod drift_crash;
mod drift_detection;
mod emptiness;
mod finalizing;
mod garbage;
mod hand_edited;
mod harness;
mod healing;
mod interruption;
mod involuntary;
mod lifecycle;
mod logs;
mod overlays;
mod pool_health;
mod provisioning;
mod registration;
mod repair;
mod repair_policies;
mod reporting;
mod static_capacity;
mod static_capacity_crash;
mod static_drift;
mod termination;
mod unreadable;
mod wire;
