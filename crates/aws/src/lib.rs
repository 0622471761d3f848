//! The AWS provider: how an EC2NodeClass becomes instance types, launch requests and running nodes, and when a node has drifted from it.
//!
//! Most modules are functions of plain values: descriptions of instance types, images, subnets and prices go in; instance types of the
//! model, requests to EC2 and reasons come out. Around them, [`lookup`], [`launch_templates`], [`instances`] and [`profiles`] call AWS
//! through the traits of [`services`], which know no SDK; [`provider`] and [`controllers`] put them together. What the rules must be is
//! stated in `docs/behaviour/aws.md`, as `AWS-…` beside each item.
//!
//! Units: memory in MiB or bytes, as names say; CPU in thousandths of a core; prices in 10⁻¹² of the currency per hour. Durations are
//! tokio's, times those of the one clock.

#![cfg_attr(
    not(test),
    deny(
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::iter_over_hash_type,
        clippy::wildcard_enum_match_arm
    )
)]

pub mod ami;
pub mod annotations;
pub mod batch;
pub mod batcher;
pub mod cache;
pub mod catalogue;
pub mod cluster;
pub mod controllers;
pub mod discovered_memory;
pub mod drift;
pub mod error_advice;
pub mod errors;
pub mod iam;
pub mod instance;
pub mod instance_end;
pub mod instance_profile;
pub mod instance_type;
pub mod instance_type_report;
pub mod instances;
pub mod interruption;
pub mod intervals;
pub mod labels;
pub mod launch;
pub mod launch_templates;
pub mod live;
pub mod lookup;
pub mod market;
pub mod metrics;
pub mod node_class;
pub mod offering;
pub mod offline;
pub mod options;
pub mod orphans;
pub mod partition;
pub mod placement_group;
pub mod pricing;
pub mod profiles;
pub mod provider;
pub mod provider_id;
pub mod repair;
pub mod reservation;
pub mod resources;
#[cfg(feature = "sdk")]
pub mod sdk;
pub mod selector;
pub mod services;
pub mod subnet;
pub mod tags;
pub mod user_data;
pub mod zonal_shift;
