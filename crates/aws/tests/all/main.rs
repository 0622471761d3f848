//! The tests of the AWS provider's rules: tables of plain values.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "JSON literals read best as they are")]

mod batcher;
mod cache;
mod class;
mod class_controllers;
mod client_ca;
mod controllers;
mod discovered_memory;
mod errors;
mod fake_aws;
mod iam;
mod identity;
mod images;
mod instance_end;
mod instance_profile;
mod instance_type_lists;
mod instance_types;
mod instances;
mod interruption;
mod kept_memory;
mod kubelet_settings;
mod launch_requests;
mod launch_selection;
mod launch_templates;
mod live;
mod lookups;
mod market;
mod offerings;
mod offline;
mod options;
mod placement_groups;
mod policy;
mod profiles;
mod provider;
mod running;
mod schema;
mod selector;
mod signals;
mod subnets;
mod tags;
mod upkeep;
mod user_data;
mod world;
mod write_conflicts;
