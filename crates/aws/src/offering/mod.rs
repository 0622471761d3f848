//! Offerings: where and how an instance type can be launched, and at which price (sections 12 and 13 of `docs/behaviour/aws.md`).

mod base;
mod inject;
mod partitions;
mod reserved;
mod unavailable;

pub use base::{OfferingKey, base_offerings};
pub use inject::{OfferingContext, inject};
pub use partitions::expand_partitions;
pub use reserved::reserved_offerings;
pub use unavailable::{CapacityType, GroupScope, UnavailableKey, UnavailableOfferings};
