//! What the definitions say, statement by statement. What API servers make of them is tested in the API server's crate.

mod fields;
mod kinds;
mod rules;
mod schema;
mod structure;
