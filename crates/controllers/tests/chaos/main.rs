//! Small worlds with the real controllers in them, an hour of virtual time each, in which everything goes wrong that can. Each is drawn
//! from a seed and judged after every event.
//!
//! `KERF_CHAOS_SEEDS=20000 cargo test -p kerf-controllers --test chaos seeds` lives through more of them, `KERF_CHAOS_SEED=17` through one,
//! with its log.

mod caller;
mod cloud;
mod healing;
mod invariants;
mod life;
mod observation;
mod scenario;
mod seeds;
mod seen;
mod wedges;
