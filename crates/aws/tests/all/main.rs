//! The tests of the AWS provider's rules: tables of plain values.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::needless_pass_by_value, reason = "JSON literals read best as they are")]

mod class;
mod errors;
mod identity;
mod images;
mod instance_profile;
mod instance_types;
mod interruption;
mod offerings;
mod placement_groups;
mod schema;
mod selector;
mod tags;
