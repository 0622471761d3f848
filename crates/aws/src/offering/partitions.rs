//! Offerings of classes with a placement group (AWS-218).

use super::inject::OfferingContext;
use super::unavailable::{CapacityType, GroupScope};
use crate::labels::{PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION};
use crate::placement_group::PlacementGroup;
use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::Sym;
use kerf_model::requirement::Requirement;

/// Gives a type the labels of its placement group, and multiplies its offerings by the partitions of a partition group. An offering in a
/// partition that had no capacity is not available (AWS-230, AWS-482).
pub(super) fn expand_partitions(kind: &mut InstanceType, group: &PlacementGroup, context: &OfferingContext<'_>) {
    let interner = context.interner;
    let id = Requirement::is(interner.intern(PLACEMENT_GROUP_ID), interner.intern(&group.id));
    kind.requirements.replace(id);
    let key = interner.intern(PLACEMENT_GROUP_PARTITION);
    let partitions: Vec<(u32, Sym)> = group
        .partition_values()
        .zip(1..)
        .map(|(text, number)| (number, interner.intern(&text)))
        .collect();
    if partitions.is_empty() {
        return;
    }
    let values = partitions.iter().map(|(_, value)| *value);
    kind.requirements.replace(Requirement::any_of(key, values));
    let offerings = std::mem::take(&mut kind.offerings);
    for offering in offerings {
        for (number, value) in &partitions {
            let mut offering = offering.clone();
            offering.requirements.replace(Requirement::is(key, *value));
            let scope = GroupScope {
                id: group.id.clone(),
                partition: Some(*number),
            };
            offering.available &= !is_marked(kind, &offering, &scope, context);
            kind.offerings.push(offering);
        }
    }
}

fn is_marked(kind: &InstanceType, offering: &Offering, scope: &GroupScope, context: &OfferingContext<'_>) -> bool {
    let interner = context.interner;
    let capacity_type = offering
        .capacity_type()
        .and_then(|name| CapacityType::parse(interner.text(name)));
    let (Some(zone), Some(capacity_type)) = (offering.zone(), capacity_type) else {
        return false;
    };
    context.unavailable.is_unavailable(
        interner.text(kind.name),
        interner.text(zone),
        capacity_type,
        &[],
        Some(scope),
        context.now,
    )
}
