//! The tests of the solver, in one binary: the scheduling contract statement by statement, and how questions may be asked.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read is a mistake in the test"
)]

mod acceptance;
mod affinity;
mod bad_input;
mod binder;
mod construction;
mod daemons;
mod domains;
mod explain;
mod limits;
mod min_values;
mod monotone;
mod odd_prices;
mod order;
mod packing;
mod pools;
mod ports_and_volumes;
mod property;
mod questions;
mod reference;
mod relaxation;
mod requirements;
mod reserved;
mod resources;
mod spread;
mod texts;
mod worlds;
