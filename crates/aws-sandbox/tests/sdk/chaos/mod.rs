//! Chaos worlds with provider `aws`: small clusters on the embedded account whose lives are drawn from seeds, watched by invariants.

mod invariants;
mod notebook;
mod noticed;
mod places;
mod process;
mod protection;
mod reports;
mod reserved;
mod scenario;
mod seeds;
mod stage;
mod strangers;
mod trouble;
mod users;
mod world;
