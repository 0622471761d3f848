//! User data: what makes an instance of each family join the cluster (section 8 of `docs/behaviour/aws.md`).
//!
//! [`render`] gives the plain text; EC2 takes it as base64 ([`encode`]). No text of this module may reach a log: user data holds secrets.

mod al2;
mod bottlerocket;
mod bottlerocket_version;
mod input;
mod kubelet_flags;
mod mime;
mod nodeadm;
mod render;
mod windows;

pub use bottlerocket::unknown_kubernetes_settings;
pub use bottlerocket_version::{binds_default_paths, bottlerocket_version};
pub use input::{BootstrapInput, NodeTaint, node_labels, node_taints};
pub use kubelet_flags::kubelet_flags;
pub use mime::{Archive, MimeError, Part};
pub use render::{SIZE_MAX, SIZE_WARNING, UserDataError, encode, render};
