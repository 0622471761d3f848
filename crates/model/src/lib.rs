//! the domain of node autoscaling as plain data.
pub mod cron;
pub mod duration;
pub mod quantity;
