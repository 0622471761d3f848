//! The instance types as documents.

use kerf_model::instance_type::{Catalogue, InstanceType, Offering, allocatable};
use kerf_model::intern::{Interner, sym};
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One instance type.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TypeReport {
    /// Name.
    pub(super) name: String,
    /// Labels with one value.
    pub(super) labels: BTreeMap<String, String>,
    /// What a node has.
    pub(super) capacity: BTreeMap<String, String>,
    /// What pods can use of it.
    pub(super) allocatable: BTreeMap<String, String>,
    /// Where and how it can be launched, with prices.
    pub(super) offerings: Vec<OfferingReport>,
}

/// One offering.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfferingReport {
    pub(super) zone: String,
    pub(super) capacity_type: String,
    pub(super) price_per_hour: f64,
    pub(super) available: bool,
}

fn amounts(resources: &Resources, interner: &Interner) -> BTreeMap<String, String> {
    let entries = resources.iter();
    entries
        .map(|(name, amount)| (interner.text(name).to_owned(), Resources::print(name, amount)))
        .collect()
}

fn offering(offering: &Offering, interner: &Interner) -> OfferingReport {
    let text = |value| interner.text(value).to_owned();
    OfferingReport {
        zone: offering.zone().map(text).unwrap_or_default(),
        capacity_type: offering.capacity_type().map(text).unwrap_or_default(),
        price_per_hour: offering.price.per_hour(),
        available: offering.available,
    }
}

impl TypeReport {
    fn new(kind: &InstanceType, interner: &Interner) -> Self {
        let single = kind
            .requirements
            .iter()
            .filter_map(|one| Some((one.key, one.single()?)));
        let left = allocatable(&kind.capacity, &kind.overhead, |_| false);
        Self {
            name: interner.text(kind.name).to_owned(),
            labels: single
                .map(|(key, value)| (interner.text(key).to_owned(), interner.text(value).to_owned()))
                .collect(),
            capacity: amounts(&kind.capacity, interner),
            allocatable: amounts(&left, interner),
            offerings: kind.offerings.iter().map(|one| offering(one, interner)).collect(),
        }
    }
}

/// The types with an offering that can be launched, by name.
pub(super) fn reports(catalogue: &Catalogue, interner: &Interner) -> Vec<TypeReport> {
    let usable = catalogue
        .types
        .iter()
        .filter(|kind| kind.offerings.iter().any(|one| one.available));
    usable.map(|kind| TypeReport::new(kind, interner)).collect()
}

/// The types in the KWOK provider's format. Its types reserve less for kubelet than EC2 nodes, so that resources are what pods can use,
/// plus what the format reserves.
pub(super) fn kwok(catalogue: &Catalogue, interner: &Interner) -> Value {
    let usable = catalogue
        .types
        .iter()
        .filter(|kind| kind.offerings.iter().any(|one| one.available));
    usable.map(|kind| kwok_type(kind, interner)).collect()
}

/// CPU and memory that the KWOK provider takes off each type.
const KWOK_RESERVED_CPU_MILLI: i64 = 100;
const KWOK_RESERVED_MEMORY: i64 = 10 << 20;

fn kwok_type(kind: &InstanceType, interner: &Interner) -> Value {
    let mut left = allocatable(&kind.capacity, &kind.overhead, |_| false);
    left.set(sym::CPU, left.get(sym::CPU) + KWOK_RESERVED_CPU_MILLI);
    left.set(sym::MEMORY, left.get(sym::MEMORY) + KWOK_RESERVED_MEMORY);
    let text = |key| {
        kind.requirements
            .get(key)
            .and_then(Requirement::single)
            .map(|value| interner.text(value))
    };
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let available = kind
        .offerings
        .iter()
        .filter(|one| one.available && one.reservation.is_none());
    let offerings: Vec<Value> = available
        .map(|one| {
            let report = offering(one, interner);
            json!({
                "Price": report.price_per_hour,
                "Available": true,
                "Requirements": [
                    requirement("karpenter.sh/capacity-type", &report.capacity_type),
                    requirement("topology.kubernetes.io/zone", &report.zone),
                ],
            })
        })
        .collect();
    json!({
        "name": interner.text(kind.name),
        "architecture": text(sym::ARCH),
        "operatingSystems": [text(sym::OS)],
        "resources": amounts(&left, interner),
        "offerings": offerings,
    })
}
