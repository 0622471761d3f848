//! `kerf preflight`: whether Kerf can take over a cluster, and what would change.
//!
//! [`facts`] holds what was read, from a cluster ([`live`]) or from files ([`files`]). The checks are functions of the facts.

mod class_drift;
mod definitions;
mod differences;
mod drift;
mod election;
mod facts;
mod files;
mod finding;
mod live;
mod options;
mod permissions;
mod provider;
mod run;
mod settings;

pub(crate) use run::run;
