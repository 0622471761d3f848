//! What the two decisions give for small clusters.

mod case;
mod forecast;
mod provisioning;
mod rounds;
mod validation;
