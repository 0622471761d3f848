//! The services on the AWS SDK: the only module that knows it (cargo feature `sdk`).
//!
//! The SDK signs, serialises, retries and reads pages; the functions here only translate. Nothing here logs requests or answers, which may
//! hold user data.

mod call_metrics;
mod connect;
mod described;
mod ec2;
mod eks;
mod errors;
mod fleet;
mod iam;
mod instance_types;
mod prices;
mod sqs;
mod ssm;
mod template;
mod values;
mod zonal_shift;

pub use connect::{ConnectError, Connection, connect, connect_in, isolated_config, loader};
