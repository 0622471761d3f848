//! A node of a plan, as the documents of several commands have it.

use kerf_model::instance_type::{InstanceType, allocatable};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::node::Node;
use kerf_model::plan::Launch;
use kerf_model::pod::Pod;
use kerf_model::price::Price;
use kerf_model::resources::Resources;
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The hours of a month: a twelfth of those of a year, as clouds count.
pub(crate) const HOURS_PER_MONTH: f64 = 730.0;

/// A node that receives pods.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeReport {
    pub(crate) name: String,
    pub(crate) node_pool: Option<String>,
    pub(crate) existing: bool,
    pub(crate) instance_type: Option<String>,
    pub(crate) zone: Option<String>,
    pub(crate) capacity_type: Option<String>,
    pub(crate) price_per_hour: Option<f64>,
    pub(crate) pods: Vec<String>,
    pub(crate) requests: BTreeMap<String, String>,
    pub(crate) allocatable: BTreeMap<String, String>,
    pub(crate) instance_type_options: usize,
}

impl NodeReport {
    /// A node to launch, the `number`th of its pool.
    pub(crate) fn new(interner: &Interner, launch: &Launch, number: usize) -> Self {
        Self::with_allocatable(interner, launch, number).0
    }

    /// The same, with the allocatable of its cheapest instance type.
    pub(crate) fn with_allocatable(interner: &Interner, launch: &Launch, number: usize) -> (Self, Resources) {
        let text = |id: Option<Sym>| id.map(|id| interner.text(id).to_owned());
        let cheapest = launch.cheapest.and_then(|(instance_type, offering)| {
            let instance_type = launch.catalogue.types.get(instance_type as usize)?;
            Some((instance_type, instance_type.offerings.get(offering as usize)?))
        });
        let allocatable = cheapest
            .map(|(instance_type, _)| type_allocatable(interner, instance_type))
            .unwrap_or_default();
        let report = Self {
            name: format!("{}-{number}", launch.pool),
            node_pool: Some(launch.pool.to_string()),
            existing: false,
            instance_type: text(cheapest.map(|(instance_type, _)| instance_type.name)),
            zone: text(cheapest.and_then(|(_, offering)| offering.zone())),
            capacity_type: text(cheapest.and_then(|(_, offering)| offering.capacity_type())),
            price_per_hour: launch.price().map(Price::per_hour),
            pods: keys(&launch.pods),
            requests: printed(interner, &launch.requests),
            allocatable: printed(interner, &allocatable),
            instance_type_options: launch.types.len(),
        };
        (report, allocatable)
    }

    /// A node that is there, with what it has once `pods` are on it too.
    pub(crate) fn existing(interner: &Interner, node: &Node, pods: &[Arc<Pod>]) -> Self {
        let label = |key: Sym| node.label(key).map(|value| interner.text(value).to_owned());
        let mut requests = node.requested.clone();
        for pod in pods {
            requests.add(&pod.shape.requests);
        }
        Self {
            name: node.name.to_string(),
            node_pool: label(sym::NODEPOOL),
            existing: true,
            instance_type: label(sym::INSTANCE_TYPE),
            zone: label(sym::ZONE),
            capacity_type: label(sym::CAPACITY_TYPE),
            price_per_hour: node.price.map(Price::per_hour),
            pods: keys(pods),
            requests: printed(interner, &requests),
            allocatable: printed(interner, &node.allocatable),
            instance_type_options: 1,
        }
    }
}

fn type_allocatable(interner: &Interner, instance_type: &InstanceType) -> Resources {
    let huge = |name: Sym| interner.text(name).starts_with("hugepages-");
    allocatable(&instance_type.capacity, &instance_type.overhead, huge)
}

fn keys(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut keys: Vec<String> = pods.iter().map(|pod| pod.key()).collect();
    keys.sort();
    keys
}

fn printed(interner: &Interner, resources: &Resources) -> BTreeMap<String, String> {
    let entry = |(name, amount): (Sym, i64)| (interner.text(name).to_owned(), Resources::print(name, amount));
    resources.iter().map(entry).collect()
}
