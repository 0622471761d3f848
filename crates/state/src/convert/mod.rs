//! Converts API objects to the model. No other module does.
//!
//! A conversion fails only for an object without a name or unique id, which no API server has. Any other field that the model cannot represent
//! becomes a fault of exactly that object.

mod affinity;
mod amounts;
mod conventions;
mod converter;
mod default_constraints;
mod node;
mod pod;
mod policy;
mod pool;
mod requests;
mod requirement;
mod selector;
mod sharing;
mod storage;
mod usage;

pub use conventions::Conventions;
pub use converter::Converter;
pub use node::{ClaimFacts, NodeFacts};
pub use pod::{NodeNomination, PodFacts, PodMeasures};
pub use pool::PoolFacts;
pub use selector::label_selector;
pub use storage::{BindingMode, ClassFacts, PvFacts, PvcFacts};

pub(crate) use amounts::{ceil, floor};
pub(crate) use node::{MachineParts, amounts, value};
pub(crate) use requests::default_from_limits;
pub(crate) use storage::{VolumeSource, missing_claim};
pub(crate) use usage::Usage;
