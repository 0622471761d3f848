//! What disruption would do now, and why every other node stays.

mod forecast;
mod input_problems;
mod rebalance;
mod report;
mod table;

pub(crate) use forecast::forecast;
pub(crate) use input_problems::{budget_faults, void_annotations};
pub(crate) use rebalance::{RebalanceReport, render_rebalance};
pub(crate) use report::{ConsolidationReport, MoveReport, NodeName, ObstacleReport};
pub(crate) use table::render;
