//! Small worlds with the real controllers in them, an hour of virtual time each, in which everything goes wrong that can. Each is drawn
//! from a seed and judged after every event.
//!
//! `KERF_CHAOS_SEEDS=20000 cargo test -p kerf-controllers --test all seeds_` lives through more of them, beginning with the seed
//! `KERF_CHAOS_FIRST`; `KERF_CHAOS_SEED=17 cargo test -p kerf-controllers --test all one_world -- --nocapture` through one, with its log.

mod caller;
mod cloud;
mod ground;
mod healing;
mod invariants;
mod life;
mod observation;
mod people;
mod process;
mod scenario;
mod seeds;
mod seen;
mod wedges;
