//! CreateFleet and RunInstances.

use super::templates::{launch_data, tags_by_resource};
use crate::account::{Account, Answer, FleetItem, FleetRequest, Override, Refusal, Strategy, TemplateReference};
use crate::wire::params::Params;
use crate::wire::xml::Xml;
use jiff::Timestamp;
use kerf_aws::launch::TargetCapacity;

fn reference(params: &Params) -> Answer<TemplateReference> {
    Ok(TemplateReference {
        name: params.required("LaunchTemplateName")?.to_owned(),
        version: params.owned("Version").unwrap_or_default(),
    })
}

fn fleet_override(params: &Params) -> Answer<Override> {
    Ok(Override {
        instance_type: params.owned("InstanceType"),
        zone: params.owned("AvailabilityZone"),
        subnet_id: params.owned("SubnetId"),
        image_id: params.owned("ImageId"),
        priority: params.parsed("Priority")?,
    })
}

fn target(params: &Params) -> Answer<TargetCapacity> {
    Ok(match params.text("DefaultTargetCapacityType").unwrap_or("on-demand") {
        "spot" => TargetCapacity::Spot,
        "on-demand" => TargetCapacity::OnDemand,
        "capacity-block" => TargetCapacity::CapacityBlock,
        "reserved-capacity" => TargetCapacity::ReservedCapacity,
        other => return Err(Refusal::invalid_value("DefaultTargetCapacityType", other)),
    })
}

/// How to choose: options of the kind of capacity that is not wanted are ignored.
fn strategy(target: TargetCapacity, params: &Params) -> Answer<Strategy> {
    let (name, default) = match target {
        TargetCapacity::Spot => ("SpotOptions", "lowest-price"),
        TargetCapacity::OnDemand | TargetCapacity::CapacityBlock | TargetCapacity::ReservedCapacity => {
            ("OnDemandOptions", "lowest-price")
        }
    };
    Ok(match params.below(name).text("AllocationStrategy").unwrap_or(default) {
        "lowest-price" | "lowestPrice" => Strategy::LowestPrice,
        "prioritized" => Strategy::Prioritized,
        "price-capacity-optimized" | "capacity-optimized" => Strategy::PriceCapacityOptimized,
        "capacity-optimized-prioritized" => Strategy::CapacityOptimizedPrioritized,
        other => return Err(Refusal::invalid_value("AllocationStrategy", other)),
    })
}

pub(super) fn create_fleet(account: &mut Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    match params.text("Type") {
        Some("instant") => {}
        other => return Err(Refusal::invalid_value("Type", other.unwrap_or("maintain"))),
    }
    let capacity = params.below("TargetCapacitySpecification");
    let target = target(capacity)?;
    let mut configs = Vec::new();
    for config in params.list("LaunchTemplateConfigs") {
        let overrides: Answer<Vec<Override>> = config.list("Overrides").map(fleet_override).collect();
        configs.push((reference(config.below("LaunchTemplateSpecification"))?, overrides?));
    }
    let reserved = params.below("ReservedCapacityOptions").list("ReservationType").count();
    if target == TargetCapacity::ReservedCapacity && reserved == 0 {
        return Err(Refusal::missing("ReservedCapacityOptions"));
    }
    let request = FleetRequest {
        client_token: params.owned("ClientToken"),
        configs,
        target,
        count: capacity.parsed("TotalTargetCapacity")?.unwrap_or(0),
        strategy: strategy(target, params)?,
        tags: tags_by_resource(params).remove("instance").unwrap_or_default(),
        dry_run: params.flag("DryRun"),
    };
    let fleet = account.create_fleet(&request, now)?;
    let mut xml = Xml::default();
    xml.leaf("fleetId", &fleet.id);
    let failed = fleet
        .items
        .iter()
        .filter_map(|item| Some((item, item.outcome.as_ref().err()?)));
    xml.list("errorSet", "item", failed, |xml, (item, refusal)| {
        used(xml, item);
        xml.leaf("lifecycle", item.lifecycle);
        xml.leaf("errorCode", &refusal.code);
        xml.leaf("errorMessage", &refusal.message);
    });
    let launched = fleet
        .items
        .iter()
        .filter_map(|item| Some((item, item.outcome.as_ref().ok()?)));
    xml.list("fleetInstanceSet", "item", launched, |xml, (item, ids)| {
        used(xml, item);
        xml.leaf("lifecycle", item.lifecycle);
        xml.texts("instanceIds", "item", ids);
        xml.leaf("instanceType", &item.instance_type);
    });
    Ok(xml)
}

fn used(xml: &mut Xml, item: &FleetItem) {
    xml.node("launchTemplateAndOverrides", |xml| {
        xml.node("launchTemplateSpecification", |xml| {
            xml.leaf("launchTemplateName", &item.template.name);
            xml.leaf("version", &item.template.version);
        });
        xml.node("overrides", |xml| {
            xml.optional("instanceType", item.used.instance_type.as_ref());
            xml.optional("subnetId", item.used.subnet_id.as_ref());
            xml.optional("availabilityZone", item.used.zone.as_ref());
            xml.optional("priority", item.used.priority);
            xml.optional("imageId", item.used.image_id.as_ref());
        });
    });
}

pub(super) fn run_instances(account: &mut Account, params: &Params, now: Timestamp) -> Answer<Xml> {
    let template = reference(params.below("LaunchTemplate"))?;
    let changes = launch_data(params)?;
    let count = params.parsed("MinCount")?.ok_or_else(|| Refusal::missing("MinCount"))?;
    let ids = account.run_instances(&template, &changes, count, params.flag("DryRun"), now)?;
    let mut xml = Xml::default();
    xml.list("instancesSet", "item", &ids, |xml, id| xml.leaf("instanceId", id));
    Ok(xml)
}
