//! Pod classes: pods that no scheduling rule can tell apart share one class.

mod class;
mod compile;
mod constraints;
mod context;
mod group_matching;
mod label_profiles;
mod numbering;
mod spread_filters;
mod volume_topology;

pub(crate) use class::{ClassId, CompiledLevel, LevelId, OwnGroup, PodClass};
pub(crate) use compile::PodClasses;
pub(crate) use context::CompileContext;
