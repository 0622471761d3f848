//! The text formats that Kubernetes and Karpenter objects and options use: quantities, durations, cron schedules and policies.
//!
//! Each type parses its text, computes exactly, and prints the text Kubernetes prints. Nothing here does I/O or knows a clock: times are
//! arguments.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod cron;
pub mod dollars;
pub mod duration;
pub mod launch_price_range;
pub mod min_savings;
pub mod nearest_name;
pub mod nominated_pods;
pub mod policy;
pub mod quantity;
pub mod savings_per_pod;
