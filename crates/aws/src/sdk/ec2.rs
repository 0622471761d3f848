//! EC2 on the SDK.

use super::errors::api_error;
use super::values::{filters, listed, sdk_tags, sdk_time, text};
use super::{described, fleet, instance_types, template};
use crate::ami::Image;
use crate::errors::ApiError;
use crate::instance::DescribedInstance;
use crate::instance_type::InstanceTypeDescription;
use crate::launch::{FleetRequest, TemplateData};
use crate::placement_group::{PlacementGroup, PlacementGroupQuery};
use crate::pricing::SpotPriceRow;
use crate::reservation::DescribedReservation;
use crate::selector::{Filter, ImageQuery, Query, ReservationQuery};
use crate::services::{
    CallResult, Ec2, FleetAnswer, FleetDryRun, InstanceQuery, InstanceStatus, InstanceTypeZone, InstancesDryRun,
    TemplateQuery,
};
use crate::subnet::Subnet;
use crate::tags::Tags;
use async_trait::async_trait;
use aws_sdk_ec2::Client;
use aws_sdk_ec2::config::retry::RetryConfig;
use aws_sdk_ec2::types::{InstanceStateName, LocationType, Reservation, ResourceType, TagSpecification};
use jiff::Timestamp;
use kerf_api::ec2_node_class::NodeClassSecurityGroup;

/// Calls EC2.
pub(super) struct SdkEc2 {
    client: Client,
    /// For calls that must not be repeated (AWS-493).
    once: Client,
}

impl SdkEc2 {
    pub(super) fn new(client: Client) -> Self {
        let config = client.config().to_builder().retry_config(RetryConfig::disabled());
        Self {
            once: Client::from_conf(config.build()),
            client,
        }
    }

    /// Whether the region can be reached and the credentials are good: a dry run of a call that everybody needs (AWS-333).
    pub(super) async fn check(&self) -> CallResult<()> {
        match self.once.describe_instance_types().dry_run(true).send().await {
            Ok(_) => Ok(()),
            Err(error) => match api_error(&error) {
                success if success.is_dry_run_success() => Ok(()),
                error => Err(error),
            },
        }
    }
}

/// All pages of a call, converted one by one; what cannot be converted is left out.
macro_rules! pages {
    ($pages:expr, $convert:expr) => {{
        let mut pages = $pages.items().send();
        let mut all = Vec::new();
        while let Some(one) = pages.next().await {
            let one = one.map_err(|error| api_error(&error))?;
            all.extend($convert(&one));
        }
        Ok(all)
    }};
}

#[async_trait]
impl Ec2 for SdkEc2 {
    async fn subnets(&self, query: &Query) -> CallResult<Vec<Subnet>> {
        let call = self.client.describe_subnets().set_filters(filters(query));
        pages!(call.into_paginator().page_size(500), |one| Some(described::subnet(one)))
    }

    async fn security_groups(&self, query: &Query) -> CallResult<Vec<NodeClassSecurityGroup>> {
        let call = self.client.describe_security_groups().set_filters(filters(query));
        pages!(call.into_paginator().page_size(500), |one| Some(
            described::security_group(one)
        ))
    }

    async fn images(&self, query: &ImageQuery) -> CallResult<Vec<Image>> {
        let call = self.client.describe_images();
        let call = call
            .set_owners(listed(&query.owners))
            .set_filters(filters(&query.filters));
        let pages = call.include_deprecated(true).into_paginator().page_size(1000);
        pages!(pages, |one| Some(described::image(one)))
    }

    async fn capacity_reservations(&self, query: &ReservationQuery) -> CallResult<Vec<DescribedReservation>> {
        let call = self
            .client
            .describe_capacity_reservations()
            .set_filters(filters(&query.filters));
        let pages = match &query.id {
            Some(id) => call.capacity_reservation_ids(id).into_paginator(),
            None => call.into_paginator().page_size(1000),
        };
        pages!(pages, |one| Some(described::reservation(one)))
    }

    async fn placement_groups(&self, query: &PlacementGroupQuery) -> CallResult<Vec<PlacementGroup>> {
        let call = self
            .client
            .describe_placement_groups()
            .set_filters(filters(&query.filters));
        let call = call
            .set_group_ids(listed(&query.ids))
            .set_group_names(listed(&query.names));
        let answer = call.send().await.map_err(|error| api_error(&error))?;
        Ok(answer
            .placement_groups()
            .iter()
            .filter_map(described::placement_group)
            .collect())
    }

    async fn instance_types(&self, wanted: &[Filter]) -> CallResult<Vec<InstanceTypeDescription>> {
        let call = self.client.describe_instance_types().set_filters(filters(wanted));
        pages!(call.into_paginator().page_size(100), instance_types::description)
    }

    async fn instance_type_zones(&self) -> CallResult<Vec<InstanceTypeZone>> {
        let call = self.client.describe_instance_type_offerings();
        let call = call.location_type(LocationType::AvailabilityZone);
        pages!(call.into_paginator().page_size(1000), described::type_zone)
    }

    async fn spot_price_history(&self, from: Timestamp, products: &[&str]) -> CallResult<Vec<SpotPriceRow>> {
        let call = self.client.describe_spot_price_history().start_time(sdk_time(from));
        let products = products.iter().map(|one| (*one).to_owned()).collect();
        let call = call.set_product_descriptions(Some(products));
        pages!(call.into_paginator().page_size(2000), described::spot_price)
    }

    async fn instances(&self, query: &InstanceQuery) -> CallResult<Vec<DescribedInstance>> {
        let call = self.client.describe_instances().set_filters(filters(&query.filters));
        // EC2 takes ids or a page size.
        let pages = match listed(&query.ids) {
            Some(ids) => call.set_instance_ids(Some(ids)).into_paginator(),
            None => call.into_paginator().page_size(1000),
        };
        let mut pages = pages.send();
        let mut all = Vec::new();
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| api_error(&error))?;
            let instances = page.reservations().iter().flat_map(Reservation::instances);
            all.extend(instances.filter_map(described::instance));
        }
        Ok(all)
    }

    async fn instance_status(&self, query: &Query) -> CallResult<Vec<InstanceStatus>> {
        let call = self.client.describe_instance_status().set_filters(filters(query));
        pages!(call.into_paginator(), described::instance_status)
    }

    async fn launch_templates(&self, query: &TemplateQuery) -> CallResult<Vec<String>> {
        let call = self
            .client
            .describe_launch_templates()
            .set_filters(filters(&query.filters));
        // EC2 takes names or a page size.
        let pages = match listed(&query.names) {
            Some(names) => call.set_launch_template_names(Some(names)).into_paginator(),
            None => call.into_paginator().page_size(200),
        };
        pages!(pages, |one: &aws_sdk_ec2::types::LaunchTemplate| one
            .launch_template_name()
            .map(str::to_owned))
    }

    async fn create_launch_template(&self, name: &str, data: &TemplateData) -> CallResult<()> {
        let tags = TagSpecification::builder()
            .resource_type(ResourceType::LaunchTemplate)
            .set_tags(Some(sdk_tags(&data.tags)))
            .build();
        let call = self.client.create_launch_template().launch_template_name(name);
        let call = call
            .launch_template_data(template::template_data(data))
            .tag_specifications(tags);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn delete_launch_template(&self, name: &str) -> CallResult<()> {
        let call = self.client.delete_launch_template().launch_template_name(name);
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }

    async fn create_fleet(&self, request: &FleetRequest, count: u32) -> CallResult<FleetAnswer> {
        let answer = fleet::fleet_input(request, count).send_with(&self.client).await;
        let answer = answer.map_err(|error| api_error(&error))?;
        Ok(fleet::fleet_answer(&answer))
    }

    async fn dry_run_fleet(&self, request: &FleetDryRun) -> CallResult<()> {
        let tried = fleet::fleet_dry_run(request).send_with(&self.once).await;
        Err(tried.err().map_or_else(unexpected_success, |error| api_error(&error)))
    }

    async fn dry_run_instances(&self, request: &InstancesDryRun) -> CallResult<()> {
        let tried = fleet::instances_dry_run(request).send_with(&self.once).await;
        Err(tried.err().map_or_else(unexpected_success, |error| api_error(&error)))
    }

    async fn terminate_instances(&self, ids: &[String]) -> CallResult<Vec<(String, String)>> {
        let call = self.client.terminate_instances().set_instance_ids(Some(ids.to_vec()));
        let answer = call.send().await.map_err(|error| api_error(&error))?;
        let change = |one: &aws_sdk_ec2::types::InstanceStateChange| {
            let state = one.current_state().and_then(|state| state.name());
            Some((
                one.instance_id()?.to_owned(),
                text(state.map(InstanceStateName::as_str)),
            ))
        };
        Ok(answer.terminating_instances().iter().filter_map(change).collect())
    }

    async fn create_tags(&self, instance_id: &str, tags: &Tags) -> CallResult<()> {
        let call = self
            .client
            .create_tags()
            .resources(instance_id)
            .set_tags(Some(sdk_tags(tags)));
        call.send().await.map(drop).map_err(|error| api_error(&error))
    }
}

/// A dry run that EC2 answered without its usual error.
fn unexpected_success() -> ApiError {
    ApiError::new("DryRunOperation", "the request would have succeeded")
}
