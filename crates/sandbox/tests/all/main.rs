//! The embedded cluster behaves as a cluster does, in virtual time.

mod budgets;
mod cron_jobs;
mod faults;
mod fixture;
mod nodes;
mod scheduling;
mod time;
mod volumes;
mod workloads;
