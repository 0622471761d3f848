//! the CloudProvider trait, its errors, catalogues and overlays.
