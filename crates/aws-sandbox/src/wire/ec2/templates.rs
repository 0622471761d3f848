//! Calls about launch templates, and the data of a launch as they and RunInstances have it.

use super::{filters, page, tag_set, tags, time};
use crate::account::{Account, Answer, InterfaceSpec, LaunchData, LaunchTemplate, ReservationSpec};
use crate::wire::params::Params;
use crate::wire::xml::Xml;
use jiff::Timestamp;
use kerf_aws::tags::Tags;
use std::collections::BTreeMap;

/// Most templates of a page.
const TEMPLATES_MAX: usize = 200;

/// Tags by kind of resource.
pub(super) fn tags_by_resource(params: &Params) -> BTreeMap<String, Tags> {
    let specification = |one: &Params| Some((one.owned("ResourceType")?, tags(one)));
    params.list("TagSpecification").filter_map(specification).collect()
}

/// The size of a disk.
fn volume(params: &Params) -> Option<(String, i64)> {
    let size = params.below("Ebs").text("VolumeSize")?.parse().ok()?;
    Some((params.owned("DeviceName")?, size))
}

/// The KMS key of a disk.
fn key(params: &Params) -> Option<String> {
    params.below("Ebs").owned("KmsKeyId")
}

/// The data of a launch.
pub(super) fn launch_data(params: &Params) -> Answer<LaunchData> {
    let interface = |one: &Params| InterfaceSpec {
        interface_type: one.owned("InterfaceType").unwrap_or_default(),
        subnet_id: one.owned("SubnetId"),
        group_ids: one.texts("SecurityGroupId"),
    };
    let placement = params.below("Placement");
    let reservation = params.below("CapacityReservationSpecification");
    Ok(LaunchData {
        image_id: params.owned("ImageId"),
        instance_type: params.owned("InstanceType"),
        profile: params.below("IamInstanceProfile").owned("Name"),
        user_data: params.owned("UserData").unwrap_or_default(),
        interfaces: params.list("NetworkInterface").map(interface).collect(),
        tenancy: placement.owned("Tenancy"),
        placement_group: placement.owned("GroupId"),
        partition: placement.parsed("PartitionNumber")?,
        market: params.below("InstanceMarketOptions").owned("MarketType"),
        reservation: ReservationSpec {
            preference: reservation.owned("CapacityReservationPreference"),
            target: reservation
                .below("CapacityReservationTarget")
                .owned("CapacityReservationId"),
        },
        kms_keys: params.list("BlockDeviceMapping").filter_map(key).collect(),
        volumes: params.list("BlockDeviceMapping").filter_map(volume).collect(),
        tags: tags_by_resource(params),
    })
}

fn template(xml: &mut Xml, one: &LaunchTemplate) {
    xml.leaf("launchTemplateId", &one.id);
    xml.leaf("launchTemplateName", &one.name);
    xml.leaf("createTime", time(one.created));
    xml.leaf("defaultVersionNumber", 1);
    xml.leaf("latestVersionNumber", one.versions.len());
    tag_set(xml, &one.tags);
}

pub(super) fn describe(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let names = params.texts("LaunchTemplateName");
    let found = account.describe_templates(&names, &filters(params)?, &page(params, TEMPLATES_MAX)?, now)?;
    let mut xml = Xml::default();
    xml.list("launchTemplates", "item", &found.items, template);
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn create(account: &mut Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let name = params.required("LaunchTemplateName")?;
    let data = launch_data(params.below("LaunchTemplateData"))?;
    let own_tags = tags_by_resource(params).remove("launch-template").unwrap_or_default();
    let made = account.create_template(name, data, own_tags, now)?;
    let mut xml = Xml::default();
    xml.node("launchTemplate", |xml| template(xml, made));
    Ok(xml)
}

pub(super) fn delete(account: &mut Account, params: &Params) -> Answer<Xml> {
    let gone = account.delete_template(params.required("LaunchTemplateName")?)?;
    let mut xml = Xml::default();
    xml.node("launchTemplate", |xml| template(xml, &gone));
    Ok(xml)
}
