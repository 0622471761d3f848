//! The tests of the API's types: what they read and write, what they refuse, and the definitions they give.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod conditions;
mod crds;
mod ec2_node_class;
mod hash;
mod json;
mod labels;
mod objects;
mod scheduler_config;
mod validation;
