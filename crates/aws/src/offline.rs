//! The instance types of a class without AWS at hand: from the built-in descriptions and prices.

use crate::instance_type::kubelet::{
    ClassKubelet, KubeletProblem, checked_expressions, evaluation_failed, gate_problem,
};
use crate::instance_type::{BUILTIN_ZONES, ResolveSettings, builtin_types, resolve_with};
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

/// Instances assumed to be left in a reservation: the status of a class does not say how many there are.
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

/// The instance types as the provider would compute them for a class, none if its kubelet settings cannot be used. Every type is assumed to be offered in every zone of the class, on
/// demand and as spot. A class without subnets in its status is assumed to have some in four zones; a placement group is not known.
pub fn offline_catalogue(
    class: &EC2NodeClass,
    settings: &OfflineSettings,
    now: Timestamp,
    interner: &Interner,
) -> Arc<Catalogue> {
    let class = with_subnets(class, &settings.resolve.region);
    let zones: BTreeSet<String> = class.status.subnets.iter().map(|subnet| subnet.zone.clone()).collect();
    let reservations = class.status.capacity_reservations.iter();
    let counts: BTreeMap<String, u32> = reservations.map(|one| (one.id.clone(), RESERVATION_CAPACITY)).collect();
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
    let types = builtin_types().values().map(|description| {
        let mut kind = resolve_with(description, &class, &kubelet, &zones, None, &settings.resolve, interner);
        offerings.inject(&mut kind, description);
        kind
    });
    Arc::new(Catalogue { types: types.collect() })
}
