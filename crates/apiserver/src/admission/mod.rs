//! What happens to an object before it is stored: identity checks, defaults, validation.

mod admit;
mod checks;
mod cluster;
mod definitions;
mod envelope;
mod limit_range;
mod meta;
mod offline;
mod pod;
mod resource_quota;
mod selector;
mod typed;
mod unknown_fields;
mod workload;

use checks::Checks;

pub(crate) use admit::{create, update};
pub(crate) use cluster::taint_new_node;
pub(crate) use envelope::envelope;
pub use offline::{Admission, Problem};
pub use unknown_fields::UnknownField;
