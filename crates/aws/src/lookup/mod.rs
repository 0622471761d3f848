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

/// The unique id of a class, its name where it was read from a file, and the generation of its spec.
pub(crate) type ClassKey = (Option<String>, i64);

/// What identifies a class with its spec: answers for another generation are not those of this one (AWS-103, AWS-123).
pub(crate) fn class_key(class: &EC2NodeClass) -> ClassKey {
    let meta = &class.metadata;
    let id = meta.uid.clone().or_else(|| meta.name.clone());
    (id, meta.generation.unwrap_or(0))
}
