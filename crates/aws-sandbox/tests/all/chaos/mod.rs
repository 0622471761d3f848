//! Chaos worlds with provider `aws`: small clusters on the embedded account whose lives are drawn from seeds, watched by invariants.

mod invariants;
mod notebook;
mod process;
mod scenario;
mod seeds;
mod strangers;
mod trouble;
mod users;
mod world;
