//! The patch formats of the Kubernetes API: JSON patch (RFC 6902), merge patch (RFC 7386) and strategic merge patch.
//!
//! In: the stored object and the patch, both JSON. Out: the patched object; the caller validates and stores it. Server-side
//! apply is not a patch in this sense and lives in [`crate::server_side_apply`].

mod formats;
mod strategic;

pub(crate) use formats::{Gvk, PatchError, PatchKind, apply_patch};
