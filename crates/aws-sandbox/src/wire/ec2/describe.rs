//! Describe calls about what a class selects: subnets, groups, images, reservations; and spot prices.

use super::{PAGE_MAX, filters, page, tag_set, time};
use crate::account::{Account, Answer};
use crate::wire::params::Params;
use crate::wire::xml::Xml;
use jiff::Timestamp;

pub(super) fn subnets(account: &Account, params: &Params) -> Answer<Xml> {
    let found = account.describe_subnets(&filters(params)?, &page(params, PAGE_MAX)?)?;
    let mut xml = Xml::default();
    xml.list("subnetSet", "item", &found.items, |xml, one| {
        xml.leaf("subnetId", &one.id);
        xml.leaf("state", "available");
        xml.leaf("vpcId", &one.vpc_id);
        xml.leaf("availableIpAddressCount", account.free_addresses(one));
        xml.leaf("availabilityZone", &one.zone.name);
        xml.leaf("availabilityZoneId", &one.zone.id);
        xml.leaf("ownerId", &account.id);
        tag_set(xml, &one.tags);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn security_groups(account: &Account, params: &Params) -> Answer<Xml> {
    let found = account.describe_security_groups(&filters(params)?, &page(params, PAGE_MAX)?)?;
    let mut xml = Xml::default();
    xml.list("securityGroupInfo", "item", &found.items, |xml, one| {
        xml.leaf("ownerId", &account.id);
        xml.leaf("groupId", &one.id);
        xml.leaf("groupName", &one.name);
        xml.leaf("groupDescription", &one.name);
        xml.leaf("vpcId", &one.vpc_id);
        tag_set(xml, &one.tags);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn images(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let owners = params.texts("Owner");
    let deprecated = params.flag("IncludeDeprecated");
    let found = account.describe_images(&owners, &filters(params)?, deprecated, &page(params, PAGE_MAX)?, now)?;
    let mut xml = Xml::default();
    xml.list("imagesSet", "item", &found.items, |xml, one| {
        xml.leaf("imageId", &one.id);
        xml.leaf("imageState", &one.state);
        xml.leaf("imageOwnerId", &one.owner_id);
        xml.optional("imageOwnerAlias", one.owner_alias.as_ref());
        xml.leaf("isPublic", one.owner_id != account.id);
        xml.leaf("architecture", &one.architecture);
        xml.leaf("imageType", "machine");
        xml.leaf("name", &one.name);
        xml.leaf("creationDate", time(one.created));
        xml.optional("deprecationTime", one.deprecated_from.map(time));
        xml.leaf("virtualizationType", "hvm");
        tag_set(xml, &one.tags);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn reservations(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let ids = params.texts("CapacityReservationId");
    let found = account.describe_reservations(&ids, &filters(params)?, &page(params, PAGE_MAX)?, now)?;
    let mut xml = Xml::default();
    xml.list("capacityReservationSet", "item", &found.items, |xml, one| {
        xml.leaf("capacityReservationId", &one.id);
        xml.leaf("ownerId", &one.owner_id);
        xml.leaf("availabilityZone", &one.zone.name);
        xml.leaf("availabilityZoneId", &one.zone.id);
        xml.leaf("instanceType", &one.instance_type);
        xml.leaf("instancePlatform", "Linux/UNIX");
        xml.leaf("tenancy", "default");
        xml.leaf("totalInstanceCount", one.total);
        xml.leaf("availableInstanceCount", account.free_in_reservation(one));
        xml.leaf("state", one.state(now));
        xml.optional("endDate", one.ends.map(time));
        xml.leaf("instanceMatchCriteria", &one.match_criteria);
        xml.leaf("reservationType", &one.kind);
        xml.leaf("interruptible", one.interruptible);
        tag_set(xml, &one.tags);
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn placement_groups(account: &Account, params: &Params) -> Answer<Xml> {
    let (ids, names) = (params.texts("GroupId"), params.texts("GroupName"));
    let found = account.describe_placement_groups(&ids, &names, &filters(params)?)?;
    let mut xml = Xml::default();
    xml.list("placementGroupSet", "item", &found, |xml, one| {
        xml.leaf("groupId", &one.id);
        xml.leaf("groupName", &one.name);
        xml.leaf("state", &one.state);
        xml.leaf("strategy", one.strategy.as_str());
        xml.optional("partitionCount", Some(one.partitions).filter(|count| *count > 0));
        tag_set(xml, &one.tags);
    });
    Ok(xml)
}

/// Rows of a page, for a call without number. The API has no larger pages.
const SPOT_PAGE: usize = 1000;

pub(super) fn spot_prices(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let from: Option<Timestamp> = params.parsed("StartTime")?;
    let products = params.texts("ProductDescription");
    // A larger number is taken as the largest.
    let mut page = page(params, usize::MAX)?;
    page.max = Some(page.max.unwrap_or(SPOT_PAGE).min(SPOT_PAGE));
    let found = account.spot_history(from, &products, &page, now)?;
    let mut xml = Xml::default();
    xml.list("spotPriceHistorySet", "item", &found.items, |xml, row| {
        xml.leaf("instanceType", &row.instance_type);
        xml.leaf("productDescription", "Linux/UNIX");
        xml.leaf("spotPrice", &row.price);
        xml.optional("timestamp", row.since.map(time));
        xml.leaf("availabilityZone", &row.zone);
    });
    // The last page has an empty token.
    xml.leaf("nextToken", found.next.unwrap_or_default());
    Ok(xml)
}
