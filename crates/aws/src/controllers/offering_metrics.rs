//! Gauges of instance types and offerings (AWS-361 to AWS-364, AWS-376).

use crate::offering::CapacityType;
use crate::provider::AwsCloud;
use kerf_api::NodePool;
use kerf_runtime::ReconcileError;
use kube::Api;
use kube::api::ListParams;
use std::collections::BTreeMap;

const MIB: f64 = 1_048_576.0;

/// Instance type, capacity type and zone.
type Series = (String, String, String);

/// Sets the gauges from what all pools see: the controller `cloudprovider.metrics`.
pub async fn report_offerings(cloud: &AwsCloud) -> Result<(), ReconcileError> {
    for description in cloud.types.descriptions().values() {
        let name = [description.name.as_str()];
        cloud.metrics.cpu_cores.set(&name, description.vcpus as f64);
        cloud
            .metrics
            .memory_bytes
            .set(&name, description.memory_mib as f64 * MIB);
    }
    let interner = &cloud.interner;
    let mut offerings: BTreeMap<Series, (bool, f64)> = BTreeMap::new();
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
            let name = interner.text(kind.name);
            for offering in &kind.offerings {
                let (Some(zone), Some(bought)) = (offering.zone(), offering.capacity_type()) else {
                    continue;
                };
                let (zone, bought) = (interner.text(zone), interner.text(bought));
                let key = |bought: &str| (name.to_owned(), bought.to_owned(), zone.to_owned());
                if cloud.reserved_capacity {
                    // A reservation that is gone turns to zero.
                    offerings
                        .entry(key(CapacityType::Reserved.as_str()))
                        .or_insert((false, 0.0));
                }
                let known = offerings.entry(key(bought)).or_insert((false, 0.0));
                *known = (known.0 || offering.available, offering.price.per_hour());
            }
        }
    }
    for ((name, bought, zone), (available, price)) in offerings {
        let labels = [name.as_str(), bought.as_str(), zone.as_str()];
        cloud
            .metrics
            .offering_available
            .set(&labels, f64::from(u8::from(available)));
        cloud.metrics.offering_price.set(&labels, price);
    }
    Ok(())
}
