//! The instance types of a class without a call of AWS: from the built-in descriptions and prices.

use crate::annotations::{DISCOVERED_MEMORY, kept_memory};
use crate::discovered_memory::{DiscoveredMemory, images_key};
use crate::instance_type::kubelet::{
    ClassKubelet, KubeletProblem, checked_expressions, evaluation_failed, gate_problem,
};
use crate::instance_type::{BUILTIN_ZONES, ResolveSettings, TypesOfClass, builtin_types};
use crate::offering::{OfferingContext, OfferingsOfClass, UnavailableOfferings};
use crate::options::AwsFeatureGates;
use crate::pricing::PriceBook;
use jiff::Timestamp;
use kerf_api::EC2NodeClass;
use kerf_api::ec2_node_class::NodeClassSubnet;
use kerf_model::instance_type::Catalogue;
use kerf_model::intern::Interner;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The number of instances assumed to be left in a reservation if it is not given: the status of a class does not have it.
const RESERVATION_CAPACITY: u32 = 1;

/// What the types depend on besides the class.
#[derive(Clone, Debug)]
pub struct OfflineSettings {
    /// Settings of the provider.
    pub resolve: ResolveSettings,
    /// Prices.
    pub prices: PriceBook,
    /// Features of the provider that are on.
    pub gates: AwsFeatureGates,
    /// Whether the memory counts that registered nodes reported.
    pub learn_memory: bool,
    /// Instances left in reservations by id, as EC2 describes them: none in one that is not listed. `None` if EC2 was not asked.
    pub reservation_counts: Option<BTreeMap<String, u32>>,
}

impl OfflineSettings {
    /// The defaults of the options, with these prices.
    pub fn new(resolve: ResolveSettings, prices: PriceBook) -> Self {
        Self {
            resolve,
            prices,
            gates: AwsFeatureGates::default(),
            learn_memory: true,
            reservation_counts: None,
        }
    }

    /// What the class keeps about memory; the error says that its text cannot be read.
    pub(crate) fn memory(&self, class: &EC2NodeClass, now: Timestamp) -> Result<DiscoveredMemory, String> {
        let Some(text) = kept_memory(class).filter(|_| self.learn_memory) else {
            return Ok(DiscoveredMemory::default());
        };
        let problem =
            || format!("the annotation {DISCOVERED_MEMORY} cannot be read; --vm-memory-overhead-percent counts");
        DiscoveredMemory::from_text(text, now).ok_or_else(problem)
    }

    /// Instances left in the reservations of a class, as far as they are known.
    fn counts(&self, class: &EC2NodeClass) -> BTreeMap<String, u32> {
        let left = |id: &String| match &self.reservation_counts {
            Some(counts) => counts.get(id).copied().unwrap_or(0),
            None => RESERVATION_CAPACITY,
        };
        let ids = class.status.capacity_reservations.iter().map(|one| &one.id);
        ids.map(|id| (id.clone(), left(id))).collect()
    }
}

/// What a user should know about the instance types of a class: where a guess stands for what the provider knows.
pub fn guesses(class: &EC2NodeClass, settings: &OfflineSettings, now: Timestamp) -> Vec<String> {
    let mut all: Vec<String> = settings.memory(class, now).err().into_iter().collect();
    let reservations = &class.status.capacity_reservations;
    if settings.resolve.reserved_capacity && settings.reservation_counts.is_none() && !reservations.is_empty() {
        let ids: Vec<&str> = reservations.iter().map(|one| one.id.as_str()).collect();
        all.push(format!(
            "one instance is assumed to be left in each of {}; --capacity-reservations reads how many are",
            ids.join(", ")
        ));
    }
    let region = settings.resolve.region.as_str();
    let zones: BTreeSet<&str> = class.status.subnets.iter().map(|subnet| subnet.zone.as_str()).collect();
    let others: Vec<&str> = zones.into_iter().filter(|zone| !zone.starts_with(region)).collect();
    if !others.is_empty() {
        all.push(format!(
            "its status has subnets in {}, and prices are those of {region}; --region names the region of the class",
            others.join(", ")
        ));
    }
    if class.spec.placement_group_selector.is_some() {
        all.push(
            "the placement group is not known: its strategy, which some instance types do not support, and its partitions do not count"
                .to_owned(),
        );
    }
    all
}

/// The zones that a class without subnets is assumed to have.
fn assumed_zones(region: &str) -> impl Iterator<Item = String> + use<'_> {
    let letters = BUILTIN_ZONES.iter().filter_map(|zone| zone.chars().last());
    letters.map(move |letter| format!("{region}{letter}"))
}

/// The class with the subnets it is assumed to have, if its status names none.
fn with_subnets(class: &EC2NodeClass, region: &str) -> EC2NodeClass {
    let mut class = class.clone();
    if class.status.subnets.is_empty() {
        let subnets = assumed_zones(region).map(|zone| NodeClassSubnet {
            id: format!("subnet-{zone}"),
            zone,
            zone_id: None,
        });
        class.status.subnets = subnets.collect();
    }
    class
}

fn usable_kubelet(class: &EC2NodeClass, settings: &OfflineSettings) -> Result<ClassKubelet, KubeletProblem> {
    gate_problem(&class.spec, settings.gates).map_or(Ok(()), Err)?;
    let kubelet = checked_expressions(&class.spec, settings.gates)?;
    let enis = settings.resolve.reserved_enis;
    match kubelet.problem(builtin_types().values(), &class.spec, enis) {
        Some(problem) => Err(evaluation_failed(&problem)),
        None => Ok(kubelet),
    }
}

/// Why the provider would launch nothing for the class's kubelet settings: the reason and the message of its condition.
pub fn kubelet_problem(class: &EC2NodeClass, settings: &OfflineSettings) -> Option<KubeletProblem> {
    usable_kubelet(class, settings).err()
}

/// The instance types as the provider would compute them for a class, none if its kubelet settings cannot be used. Every type is assumed to
/// be offered in every zone of the class, on demand and as spot. A class without subnets in its status is assumed to have some in four zones; a placement group is not known.
pub fn offline_catalogue(
    class: &EC2NodeClass,
    settings: &OfflineSettings,
    now: Timestamp,
    interner: &Interner,
) -> Arc<Catalogue> {
    let class = with_subnets(class, &settings.resolve.region);
    let zones: BTreeSet<String> = class.status.subnets.iter().map(|subnet| subnet.zone.clone()).collect();
    let counts = settings.counts(&class);
    let memory = settings.memory(&class, now).unwrap_or_default();
    let images = images_key(&class.status.amis);
    let (unavailable, none, no_prices) = (UnavailableOfferings::default(), BTreeSet::new(), BTreeMap::new());
    let context = OfferingContext {
        all_zones: &zones,
        prices: &settings.prices,
        overlay_prices: &no_prices,
        unavailable: &unavailable,
        reservation_counts: &counts,
        shifted_zone_ids: &none,
        group: None,
        reserved_capacity: settings.resolve.reserved_capacity,
        now,
        interner,
    };
    let offerings = OfferingsOfClass::new(&class, &context);
    // Nodes of a class whose kubelet settings cannot be used are not launched.
    let Ok(kubelet) = usable_kubelet(&class, settings) else {
        return Arc::new(Catalogue { types: Vec::new() });
    };
    let of_class = TypesOfClass::new(&class, &kubelet, &settings.resolve, interner);
    let types = builtin_types().values().map(|description| {
        let memory = memory.memory(&description.name, images, now);
        let mut kind = of_class.resolve(description, &zones, memory, None);
        offerings.inject(&mut kind, description);
        kind
    });
    Arc::new(Catalogue { types: types.collect() })
}
