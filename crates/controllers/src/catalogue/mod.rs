//! Which instance types pools can have, and what NodeOverlays make of them.

mod overlays;
mod refresh;

pub(crate) use overlays::OverlayEvaluation;
pub(crate) use refresh::{CatalogueRefresh, refresh};
