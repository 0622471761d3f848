//! The scheduling contract, statement by statement, on the fixture language of `tests/support/fixture.rs`.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a fixture that cannot be read is a mistake in the test"
)]

#[path = "../support/fixture.rs"]
mod fixture;

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
#[path = "../../benches/diverse/timing.rs"]
mod timing;
#[path = "../support/workload.rs"]
mod workload;
