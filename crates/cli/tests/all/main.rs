//! The built `kerf` binary as a user meets it. One file per command or question; `kerf` runs the binary, `manifest` writes manifests.

mod bad_input;
mod bytes;
mod charts;
mod commands;
mod consolidate;
mod controller;
mod dashboards;
mod durability;
mod every_reason;
mod explain;
mod folders;
mod generate;
mod generated;
mod instance_types;
mod kerf;
mod live;
mod manifest;
mod node_classes;
mod preflight;
mod rbac;
mod replicas;
mod scenarios;
mod shadow;
mod simulate;
mod unknown;
