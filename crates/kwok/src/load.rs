//! Loads the catalogue of the controller (KWK-018, KWK-019).

use crate::builtin::builtin_catalogue;
use crate::read::{CatalogueErrors, ReadMode, read_catalogue};
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why a catalogue file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("could not read custom instance types file: {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is not in the format.
    #[error("could not parse JSON data: {0}")]
    Parse(#[from] CatalogueErrors),
}

/// The catalogue of a file, or the built-in one where no file is named.
pub fn load_catalogue(path: Option<&Path>, interner: &Interner) -> Result<Arc<Catalogue>, LoadError> {
    let Some(path) = path.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(builtin_catalogue(interner));
    };
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let catalogue = read_catalogue(&text, &path.display().to_string(), interner, ReadMode::Lenient)?;
    Ok(Arc::new(catalogue))
}

/// The same for a controller, which runs without instance types if the file is invalid.
pub fn load_catalogue_or_none(path: Option<&Path>, interner: &Interner) -> Arc<Catalogue> {
    load_catalogue(path, interner).unwrap_or_else(|error| {
        tracing::error!(%error, "failed constructing instance types");
        Arc::default()
    })
}
