//! Launching: which instance types and offerings a claim is launched with, and the requests to EC2 for it (sections 9 and 14 of
//! `docs/behaviour/aws.md`).

mod claim;
mod fleet;
mod fleet_errors;
mod fleet_outcome;
mod groups;
mod interfaces;
mod price_filters;
mod reservation_filters;
mod select;
mod template;
mod template_name;

pub use claim::{LaunchClaim, Tenancy, capacity_type, is_risky_on_demand_fallback, tenancy};
pub use fleet::{
    AllocationStrategy, FleetConfig, FleetInput, FleetOverride, FleetRequest, FleetTagSpecification, TargetCapacity,
    fleet_request, overrides,
};
pub use fleet_errors::{FleetError, FleetScope, Mark, launch_failures, marks};
pub use fleet_outcome::{FleetOutcome, failure};
pub use groups::{ReservedOf, TemplateGroup, TemplateKey, template_groups};
pub use interfaces::{InterfaceRequest, interfaces};
pub use select::{NoneLeft, Selection, TYPES_MAX, select};
pub use template::{
    BlockDeviceRequest, MarketType, MetadataRequest, PlacementRequest, ReservationPreference, TemplateData,
    TemplateInput, template_data, volume_gib,
};
pub use template_name::template_name;
