//! Gauges of instance types and offerings (AWS-361 to AWS-364, AWS-376).

use crate::instance_type_report::OfferingState;
use crate::offering::CapacityType;
use crate::provider::AwsCloud;
use kerf_api::NodePool;
use kerf_model::intern::Sym;
use kerf_runtime::ReconcileError;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;

/// Sets the gauges from what all pools see: the controller `cloudprovider.metrics`.
pub async fn report_offerings(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    let interner = &cloud.interner;
    let types = cloud.types.descriptions();
    let types = types
        .values()
        .map(|one| (interner.intern(&one.name), (one.vcpus, one.memory_mib)));
    cloud.metrics.instance_types.set_types(types);
    let reserved = interner.intern(CapacityType::Reserved.as_str());
    let mut offerings: BTreeMap<(Sym, Sym, Sym), OfferingState> = BTreeMap::new();
    for pool in Api::<NodePool>::all(cloud.client.clone())
        .list(&ListParams::default())
        .await?
        .items
    {
        let Some(class) = cloud.class(&pool.spec.template.spec.node_class_ref.name).await? else {
            continue;
        };
        // A pool whose class is not ready yet sees nothing.
        let Ok((types, _)) = cloud.types_of(&class).await else {
            continue;
        };
        for kind in &types.types {
            for offering in &kind.offerings {
                let (Some(zone), Some(bought)) = (offering.zone(), offering.capacity_type()) else {
                    continue;
                };
                if cloud.reserved_capacity {
                    // A reservation that is gone turns to zero.
                    offerings.entry((kind.name, reserved, zone)).or_default();
                }
                let known = offerings.entry((kind.name, bought, zone)).or_default();
                known.available |= offering.available;
                known.price = offering.price;
            }
        }
    }
    cloud.metrics.instance_types.set_offerings(offerings);
    Ok(())
}
