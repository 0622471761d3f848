//! Keeps the instance types of pools, with NodeOverlays applied, up to date.

mod overlays;
mod refresh;

pub(crate) use overlays::OverlayEvaluation;
pub(crate) use refresh::{CatalogueRefresh, refresh};
