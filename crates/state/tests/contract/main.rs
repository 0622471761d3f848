//! What the mirror makes of objects, statement by statement.

mod convergence;
mod daemons;
mod fixture;
mod machines;
mod pods;
mod pools;
mod resets;
mod sync;
mod times;
mod volumes;
mod world;
