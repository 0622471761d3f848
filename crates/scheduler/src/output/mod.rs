//! From the best outcome to the plan: launches, placements and reasons.

mod launches;
mod plan;
mod reasons;
mod zones;

pub(crate) use plan::plan;
pub(crate) use reasons::reasons;
pub use zones::EffectiveZone;
