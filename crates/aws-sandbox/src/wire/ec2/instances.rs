//! Calls about instances.

use super::{PAGE_MAX, filters, page, tag_set, tags, time};
use crate::account::{Account, Answer, Instance, InstanceState};
use crate::wire::params::Params;
use crate::wire::xml::Xml;
use jiff::Timestamp;

pub(super) fn instances(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let ids = params.texts("InstanceId");
    let found = account.describe_instances(&ids, &filters(params)?, &page(params, PAGE_MAX)?, now)?;
    let mut xml = Xml::default();
    xml.list("reservationSet", "item", &found.items, |xml, one| {
        xml.leaf("reservationId", one.id.replacen("i-", "r-", 1));
        xml.leaf("ownerId", &account.id);
        xml.node("instancesSet", |xml| xml.node("item", |xml| instance(xml, one, now)));
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

fn state(xml: &mut Xml, element: &str, state: InstanceState) {
    xml.node(element, |xml| {
        xml.leaf("code", state.code());
        xml.leaf("name", state.as_str());
    });
}

/// What EC2 says of an instance. One that has ended has no network any more.
fn instance(xml: &mut Xml, one: &Instance, now: Timestamp) {
    let has_network = one.state(now) != InstanceState::Terminated;
    xml.leaf("instanceId", &one.id);
    xml.leaf("imageId", &one.image_id);
    state(xml, "instanceState", one.state(now));
    let ended = one.state(now) >= InstanceState::ShuttingDown;
    if let Some(reason) = one.state_reason.as_ref().filter(|_| ended) {
        xml.node("stateReason", |xml| {
            xml.leaf("code", &reason.code);
            xml.leaf("message", &reason.message);
        });
    }
    xml.leaf("instanceType", &one.instance_type);
    xml.leaf("launchTime", time(one.launched));
    xml.node("placement", |xml| {
        xml.leaf("availabilityZone", &one.zone.name);
        xml.leaf("availabilityZoneId", &one.zone.id);
        xml.optional("groupId", one.placement_group.as_ref());
        xml.optional("partitionNumber", one.partition);
        xml.leaf("tenancy", &one.tenancy);
    });
    xml.leaf("architecture", &one.architecture);
    xml.optional("instanceLifecycle", one.lifecycle.as_ref());
    xml.optional("spotInstanceRequestId", one.spot_request_id.as_ref());
    xml.optional("capacityReservationId", one.reservation_id.as_ref());
    if let Some(preference) = &one.reservation_preference {
        xml.node("capacityReservationSpecification", |xml| {
            xml.leaf("capacityReservationPreference", preference);
        });
    }
    if let Some(profile) = &one.profile {
        xml.node("iamInstanceProfile", |xml| xml.leaf("arn", profile));
    }
    if has_network {
        xml.leaf("subnetId", &one.subnet_id);
        xml.leaf("vpcId", &one.vpc_id);
        xml.leaf("privateIpAddress", &one.address);
        xml.leaf("privateDnsName", one.private_name());
        xml.list("groupSet", "item", &one.group_ids, |xml, id| xml.leaf("groupId", id));
        xml.list("networkInterfaceSet", "item", &one.interface_types, |xml, kind| {
            xml.leaf("interfaceType", kind);
            xml.leaf("subnetId", &one.subnet_id);
        });
    }
    tag_set(xml, &one.tags);
}

pub(super) fn status(account: &Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let found = account.describe_status(&filters(params)?, &page(params, PAGE_MAX)?, now)?;
    let check = |xml: &mut Xml, element: &str, since: Option<Timestamp>| {
        xml.node(element, |xml| {
            xml.leaf("status", if since.is_some() { "impaired" } else { "ok" });
            xml.node("details", |xml| {
                xml.node("item", |xml| {
                    xml.leaf("name", "reachability");
                    xml.leaf("status", if since.is_some() { "failed" } else { "passed" });
                    xml.optional("impairedSince", since.map(time));
                });
            });
        });
    };
    let mut xml = Xml::default();
    xml.list("instanceStatusSet", "item", &found.items, |xml, one| {
        xml.leaf("instanceId", &one.id);
        xml.leaf("availabilityZone", &one.zone.name);
        state(xml, "instanceState", one.state(now));
        check(xml, "instanceStatus", one.health.instance_impaired_since);
        check(xml, "systemStatus", one.health.system_impaired_since);
        xml.list("eventsSet", "item", &one.health.events, |xml, event| {
            xml.leaf("code", &event.code);
            xml.leaf("description", &event.description);
            xml.leaf("notBefore", time(event.not_before));
        });
    });
    xml.optional("nextToken", found.next);
    Ok(xml)
}

pub(super) fn terminate(account: &mut Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let changes = account.terminate(&params.texts("InstanceId"), now)?;
    let mut xml = Xml::default();
    xml.list("instancesSet", "item", &changes, |xml, (id, before, after)| {
        xml.leaf("instanceId", id);
        state(xml, "currentState", *after);
        state(xml, "previousState", *before);
    });
    Ok(xml)
}

pub(super) fn create_tags(account: &mut Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    account.tag(&params.texts("ResourceId"), &tags(params), now)?;
    let mut xml = Xml::default();
    xml.leaf("return", true);
    Ok(xml)
}
