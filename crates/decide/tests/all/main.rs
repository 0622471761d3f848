//! What the two decisions give for small clusters.

#![expect(clippy::unwrap_used, reason = "fixtures fail loudly")]

mod forecast;
mod provisioning;
mod rounds;
mod validation;
mod world;
