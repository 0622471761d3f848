//! The `kerf` command: reads options and manifests, calls the crates below, prints tables and documents, and maps results to exit codes.
//! [`offline`] and [`controller_rules`] are for callers in the same process.

#![cfg_attr(
    not(test),
    deny(clippy::expect_used, clippy::indexing_slicing, clippy::iter_over_hash_type)
)]

mod args;
mod assemble;
#[cfg(feature = "aws")]
mod aws_controller;
mod catalogue;
mod columns;
mod commands;
mod consolidate;
mod controller;
mod counted;
mod decision;
mod definition_fields;
mod demo;
mod ec2_args;
#[cfg(feature = "aws")]
mod embedded_aws;
mod exit;
mod explain;
mod install;
mod kubeconfig_file;
mod listed;
mod manifests;
mod messages;
mod node_report;
pub mod offline;
mod old_definitions;
mod preflight;
mod process;
mod shadow;
mod simulate;
mod up;
mod up_flags;

pub use commands::main;
pub use install::rbac::controller_rules;
