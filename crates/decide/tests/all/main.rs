//! What the two decisions give for small clusters.

mod forecast;
mod provisioning;
mod rounds;
mod validation;
mod world;
