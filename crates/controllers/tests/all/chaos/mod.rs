//! Small worlds with the real controllers in them, an hour of virtual time each, in which everything fails that can. Each is drawn from a
//! seed, and invariants are checked after every event.
//!
//! `KERF_CHAOS_SEEDS=20000 cargo test -p kerf-controllers --test all seeds_` runs more of them, beginning with the seed
//! `KERF_CHAOS_FIRST`; `KERF_CHAOS_SEED=17 cargo test -p kerf-controllers --test all one_world -- --nocapture` runs one, with its log.

mod any_cloud;
mod cloud;
mod known_stalls;
mod missed_events;
mod process;
mod run;
mod scenario;
mod seeds;
mod users;
