//! Offerings: where and how an instance type can be launched, and at which price (sections 12 and 13 of `docs/behaviour/aws.md`).

mod base;
mod inject;
mod partitions;
mod reserved;
mod unavailable;

pub use inject::{OfferingContext, OfferingsOfClass};
pub use unavailable::{CapacityType, GroupScope, UnavailableKey, UnavailableOfferings};
