//! The scheduling contract, statement by statement, on the fixture language of `kerf-testkit`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read is a mistake in the test"
)]

mod acceptance;
mod affinity;
mod bad_input;
mod construction;
mod daemons;
mod domains;
mod explain;
mod limits;
mod min_values;
mod order;
mod pools;
mod ports_and_volumes;
mod property;
mod reference;
mod relaxation;
mod requirements;
mod reserved;
mod resources;
mod spread;
mod texts;
