//! What the mirror makes of objects, statement by statement.

#![expect(clippy::unwrap_used, clippy::panic, reason = "fixtures fail loudly")]

mod capacity_buffers;
mod claim_states;
mod cluster_objects;
mod commands;
mod consolidation_back_off;
mod convergence;
mod daemons;
mod default_constraints;
mod empty_again;
mod fixture;
mod in_flight;
mod machines;
mod pdbs;
mod pods;
mod pools;
mod resets;
mod sync;
mod times;
mod volumes;
