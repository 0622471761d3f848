//! The scheduling contract, statement by statement, on the fixture language of `tests/support/fixture.rs`.

#[path = "../support/fixture.rs"]
mod fixture;

mod affinity;
mod construction;
mod daemons;
mod min_values;
mod order;
mod pools;
mod ports_and_volumes;
mod relaxation;
mod requirements;
mod reserved;
mod resources;
mod spread;
mod texts;
