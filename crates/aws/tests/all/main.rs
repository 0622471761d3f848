//! The tests of the AWS provider's rules: tables of plain values.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "JSON literals read best as they are")]

mod class;
mod controllers;
mod errors;
mod identity;
mod images;
mod instance_profile;
mod instance_types;
mod instances;
mod interruption;
mod launch_requests;
mod launch_selection;
mod market;
mod offerings;
mod offline;
mod placement_groups;
mod schema;
mod selector;
mod subnets;
mod tags;
mod user_data;
