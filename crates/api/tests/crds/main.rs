//! What the definitions say, statement by statement. What API servers make of them is tested in the API server's crate.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fields;
mod kinds;
mod rules;
mod schema;
mod structure;
