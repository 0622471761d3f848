//! What an operator sees of running controllers: metrics, events and log lines.

mod cluster;
mod controllers;
mod life;
mod observability;
mod pods;
mod scrape;
mod standby;
mod termination;
