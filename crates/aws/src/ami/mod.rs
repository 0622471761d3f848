//! Images: which parameters and queries find them, which of them a class uses, and which an instance type gets (section 7 of
//! `docs/behaviour/aws.md`).

mod alias;
mod image;
mod mapping;
mod volumes;

pub use alias::{AliasError, AliasParameter, Variant, alias_parameters, check_alias_support};
pub(crate) use image::sort_for_status;
pub use image::{Image, Selected, select, status_amis};
pub use mapping::{ami_for, group_by_ami};
pub use volumes::{DEFAULT_VOLUME_BYTES, DefaultVolume, default_volumes, pod_device};
