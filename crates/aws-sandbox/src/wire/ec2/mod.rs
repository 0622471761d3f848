//! EC2.

mod describe;
mod instance_types;
mod instances;
mod launches;
mod templates;

use super::errors::{REQUEST_ID, unknown_action};
use super::params::Params;
use super::request::{Service, WireAnswer};
use super::xml::Xml;
use crate::account::{Account, Answer, PageRequest, Refusal};
use jiff::Timestamp;
use kerf_aws::selector::Filter;
use kerf_aws::tags::Tags;

/// Most items of a page, for calls that have no limit of their own.
const PAGE_MAX: usize = 1000;

pub(super) fn act(account: &mut Account, action: &str, params: &Params, now: Timestamp) -> Answer<WireAnswer> {
    let result = match action {
        "DescribeSubnets" => describe::subnets(account, params)?,
        "DescribeSecurityGroups" => describe::security_groups(account, params)?,
        "DescribeImages" => describe::images(account, params, now)?,
        "DescribeCapacityReservations" => describe::reservations(account, params, now)?,
        "DescribePlacementGroups" => describe::placement_groups(account, params)?,
        "DescribeSpotPriceHistory" => describe::spot_prices(account, params, now)?,
        "DescribeInstanceTypeOfferings" => instance_types::offerings(account, params)?,
        "DescribeInstanceTypes" => instance_types::types(account, params)?,
        "DescribeInstances" => instances::instances(account, params, now)?,
        "DescribeInstanceStatus" => instances::status(account, params, now)?,
        "TerminateInstances" => instances::terminate(account, params, now)?,
        "CreateTags" => instances::create_tags(account, params, now)?,
        "DescribeLaunchTemplates" => templates::describe(account, params, now)?,
        "CreateLaunchTemplate" => templates::create(account, params, now)?,
        "DeleteLaunchTemplate" => templates::delete(account, params)?,
        "CreateFleet" => launches::create_fleet(account, params, now)?,
        "RunInstances" => launches::run_instances(account, params, now)?,
        _ => return Err(unknown_action(Service::Ec2, action)),
    };
    let mut xml = Xml::default();
    xml.node(
        &format!("{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\""),
        |xml| {
            xml.leaf("requestId", REQUEST_ID);
            xml.raw(&result.finish());
        },
    );
    Ok(WireAnswer::xml(xml.finish()))
}

/// A time as EC2 writes it.
fn time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.000Z").to_string()
}

/// The filters of a describe call.
fn filters(params: &Params) -> Answer<Vec<Filter>> {
    let filter = |one: &Params| Ok(Filter::new(one.required("Name")?, one.texts("Value")));
    params.list("Filter").map(filter).collect()
}

/// The page that a call wants. A page larger than the call allows is refused.
fn page(params: &Params, max: usize) -> Answer<PageRequest> {
    let wanted: Option<usize> = params.parsed("MaxResults")?;
    if wanted.is_some_and(|wanted| wanted == 0 || wanted > max) {
        return Err(Refusal::invalid_value(
            "MaxResults",
            params.text("MaxResults").unwrap_or_default(),
        ));
    }
    Ok(PageRequest {
        max: wanted,
        token: params.owned("NextToken"),
    })
}

/// Tags of a list.
fn tags(params: &Params) -> Tags {
    let pair = |tag: &Params| Some((tag.owned("Key")?, tag.owned("Value").unwrap_or_default()));
    params.list("Tag").filter_map(pair).collect()
}

/// Tags as XML.
fn tag_set(xml: &mut Xml, tags: &Tags) {
    xml.list("tagSet", "item", tags, |xml, (key, value)| {
        xml.leaf("key", key);
        xml.leaf("value", value);
    });
}
