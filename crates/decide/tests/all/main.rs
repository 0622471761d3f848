//! What the two decisions give for small clusters.

mod addresses;
mod awaited;
mod case;
mod constraint_cost;
mod convergence;
mod destinations;
mod forecast;
mod gap;
mod passes;
mod property;
mod provisioning;
mod rebalance;
mod rounds;
mod shadow;
mod unread;
mod validation;
