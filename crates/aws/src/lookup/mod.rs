//! Look-ups of what a class selects: subnets, security groups, images, capacity reservations, placement groups. Each remembers answers for
//! its time (section 32 of `docs/behaviour/aws.md`).

mod images;
mod network;
mod parameters;
mod placement_groups;
mod reservations;

pub use images::{ImageError, ImageLookup};
pub use network::{SecurityGroupLookup, SubnetLookup};
pub use parameters::ParameterStore;
pub use placement_groups::{KnownGroup, PlacementGroupLookup};
pub use reservations::ReservationLookup;

use kerf_api::EC2NodeClass;

/// What identifies a class with its spec: answers for another generation are not those of this one (AWS-103, AWS-123).
pub(crate) fn class_key(class: &EC2NodeClass) -> String {
    let uid = class.metadata.uid.as_deref().unwrap_or_else(|| class.name());
    format!("{uid}-{}", class.metadata.generation.unwrap_or(0))
}
