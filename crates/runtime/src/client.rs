//! The way to the Kubernetes API: a `kube::Client` with our own layers, and what its errors mean.

mod answer_limit;
mod connect;
mod deletion;
mod error;
mod identity;
mod layer;
mod missing_permissions;
mod pace;
mod patch;
mod read_only;
mod request_info;
mod shared_reads;

pub use connect::{ConnectError, Connection};
pub use deletion::{Deleted, delete_exactly, uid_precondition};
pub use error::{ApiErrorKind, describe, found, unless_conflict};
pub use identity::{name_of, uid_of};
pub use layer::{ApiLayers, Retry};
pub use missing_permissions::PermissionRule;
pub use patch::{Lock, Part, Patchable, Written, patch_object, patch_status, send_patch};
pub use read_only::{ReadOnlyError, read_only};
pub use request_info::RequestInfo;
pub use shared_reads::SharedReads;
