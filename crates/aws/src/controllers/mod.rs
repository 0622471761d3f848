//! The provider's own controllers. Each has one function that brings something one step closer to what it should be; [`start`] makes the loops
//! that call them. All may be killed between any two calls.

mod class_conditions;
mod class_end;
mod class_hash;
mod discovered_capacity;
mod garbage_collection;
mod loops;
mod node_class;
mod offering_metrics;
mod periodic;
mod refresh;
mod reservations;
mod tagging;
mod validation;
mod zonal_shifts;

pub use class_end::ClassEnd;
pub use class_hash::ClassHash;
pub use discovered_capacity::{discover_memory, keep_memory};
pub use garbage_collection::{InstanceGarbage, collect_profiles};
pub use loops::{AwsLoops, start};
pub use node_class::NodeClassController;
pub use offering_metrics::report_offerings;
pub use refresh::{refresh_instance_types, refresh_prices, refresh_version};
pub use reservations::{correct_capacity_types, expire_reservations};
pub use tagging::Tagging;
pub use validation::Validation;
pub use zonal_shifts::ZonalShiftController;
