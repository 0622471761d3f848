//! The AWS services as the provider calls them: one trait for each, in plain values.
//!
//! An implementation signs, serialises, reads all pages and retries; it answers errors with the service's code. Everything else, such as
//! batches and caches, is the business of the callers. Tests and simulations implement the same traits.

mod ec2;
mod others;

pub use ec2::{
    Ec2, FleetAnswer, FleetDryRun, InstanceQuery, InstanceStatus, InstanceTypeZone, InstancesDryRun, TemplateQuery,
};
pub use others::{ClusterDescription, Eks, Iam, InstanceProfile, PriceList, QueueMessage, Sqs, Ssm, ZonalShiftService};

use crate::errors::ApiError;
use std::sync::Arc;

/// The answer of a call.
pub type CallResult<T> = Result<T, ApiError>;

/// All services of one account and region.
#[derive(Clone)]
pub struct Services {
    /// Machines and what belongs to them.
    pub ec2: Arc<dyn Ec2>,
    /// Parameters, which hold the ids of images.
    pub ssm: Arc<dyn Ssm>,
    /// Instance profiles.
    pub iam: Arc<dyn Iam>,
    /// The interruption queue.
    pub sqs: Arc<dyn Sqs>,
    /// The cluster.
    pub eks: Arc<dyn Eks>,
    /// On-demand prices.
    pub price_list: Arc<dyn PriceList>,
    /// Zones that traffic is shifted away from.
    pub zonal_shift: Arc<dyn ZonalShiftService>,
}
