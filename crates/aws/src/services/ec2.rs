//! The calls of EC2.

use super::CallResult;
use crate::ami::Image;
use crate::instance::DescribedInstance;
use crate::instance_type::InstanceTypeDescription;
use crate::interruption::StatusDetail;
use crate::launch::{FleetError, FleetOutcome, FleetRequest, FleetTagSpecification, InterfaceRequest, TemplateData};
use crate::placement_group::{PlacementGroup, PlacementGroupQuery};
use crate::pricing::SpotPriceRow;
use crate::reservation::DescribedReservation;
use crate::selector::{Filter, ImageQuery, Query, ReservationQuery};
use crate::subnet::Subnet;
use crate::tags::Tags;
use async_trait::async_trait;
use jiff::Timestamp;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;

/// EC2. Every describe call answers all pages.
#[async_trait]
pub trait Ec2: Send + Sync {
    /// DescribeSubnets, in pages of 500 (AWS-102).
    async fn subnets(&self, query: &Query) -> CallResult<Vec<Subnet>>;

    /// DescribeSecurityGroups, in pages of 500 (AWS-102).
    async fn security_groups(&self, query: &Query) -> CallResult<Vec<NodeClassSecurityGroup>>;

    /// DescribeImages, deprecated ones included, in pages of 1000 (AWS-118).
    async fn images(&self, query: &ImageQuery) -> CallResult<Vec<Image>>;

    /// DescribeCapacityReservations, in pages of 1000 except for a query by id (AWS-271).
    async fn capacity_reservations(&self, query: &ReservationQuery) -> CallResult<Vec<DescribedReservation>>;

    /// DescribePlacementGroups (AWS-279).
    async fn placement_groups(&self, query: &PlacementGroupQuery) -> CallResult<Vec<PlacementGroup>>;

    /// DescribeInstanceTypes with these filters, in pages of 100 (AWS-177).
    async fn instance_types(&self, filters: &[Filter]) -> CallResult<Vec<InstanceTypeDescription>>;

    /// DescribeInstanceTypeOfferings by zone, in pages of 1000 (AWS-177).
    async fn instance_type_zones(&self) -> CallResult<Vec<InstanceTypeZone>>;

    /// DescribeSpotPriceHistory from a time on, for these products, in pages of 2000 (AWS-224).
    async fn spot_price_history(&self, from: Timestamp, products: &[&str]) -> CallResult<Vec<SpotPriceRow>>;

    /// DescribeInstances, in pages of 1000 (AWS-260, AWS-268).
    async fn instances(&self, query: &InstanceQuery) -> CallResult<Vec<DescribedInstance>>;

    /// DescribeInstanceStatus (AWS-320).
    async fn instance_status(&self, query: &Query) -> CallResult<Vec<InstanceStatus>>;

    /// DescribeLaunchTemplates, in pages of 200; answers names (AWS-157, AWS-158).
    async fn launch_templates(&self, query: &TemplateQuery) -> CallResult<Vec<String>>;

    /// CreateLaunchTemplate. The tags of the data go onto the template itself, too.
    async fn create_launch_template(&self, name: &str, data: &TemplateData) -> CallResult<()>;

    /// DeleteLaunchTemplate by name.
    async fn delete_launch_template(&self, name: &str) -> CallResult<()>;

    /// CreateFleet of type `instant` for so many instances.
    async fn create_fleet(&self, request: &FleetRequest, count: u32) -> CallResult<FleetAnswer>;

    /// CreateFleet as a dry run, without retries; its success is an error, too (AWS-075).
    async fn dry_run_fleet(&self, request: &FleetDryRun) -> CallResult<()>;

    /// RunInstances as a dry run, without retries; its success is an error, too (AWS-076).
    async fn dry_run_instances(&self, request: &InstancesDryRun) -> CallResult<()>;

    /// TerminateInstances; answers the id and state of each instance.
    async fn terminate_instances(&self, ids: &[String]) -> CallResult<Vec<(String, String)>>;

    /// CreateTags on one instance.
    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> CallResult<()>;
}

/// An instance type that a zone offers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceTypeZone {
    /// Instance type.
    pub instance_type: String,
    /// Zone.
    pub zone: String,
}

/// Which instances to describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InstanceQuery {
    /// Ids; all instances without any.
    pub ids: Vec<String>,
    /// Filters.
    pub filters: Query,
}

/// Which launch templates to describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateQuery {
    /// Names; all templates without any. A name that does not exist is an error.
    pub names: Vec<String>,
    /// Filters.
    pub filters: Query,
}

/// The status of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceStatus {
    /// Id.
    pub instance_id: String,
    /// Checks and maintenance events.
    pub details: Vec<StatusDetail>,
}

/// An answer of CreateFleet. It may have instances and errors at once (AWS-479).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetAnswer {
    /// One entry for each instance.
    pub instances: Vec<FleetOutcome>,
    /// One entry for each override that failed.
    pub errors: Vec<FleetError>,
}

/// A CreateFleet call that is only tried: one on-demand instance, in any of the subnets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetDryRun {
    /// Name of the launch template.
    pub template_name: String,
    /// Instance type.
    pub instance_type: String,
    /// One override for each.
    pub subnet_ids: Vec<String>,
    /// Tags of instance, volumes and fleet.
    pub tags: Vec<FleetTagSpecification>,
}

/// A RunInstances call for one instance that is only tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstancesDryRun {
    /// Name of the launch template.
    pub template_name: String,
    /// Instance type.
    pub instance_type: String,
    /// Network interfaces, which are all in the subnet.
    pub interfaces: Vec<InterfaceRequest>,
    /// Subnet.
    pub subnet_id: String,
    /// Tags of instance, volumes and network interfaces.
    pub tags: Vec<FleetTagSpecification>,
}
