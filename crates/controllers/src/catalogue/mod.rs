//! Which instance types pools can have, and what NodeOverlays make of them.

mod overlays;
mod refresh;

pub use overlays::OverlayEvaluation;
pub use refresh::{CatalogueRefresh, refresh};
