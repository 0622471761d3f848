//! The instance types of classes, computed once per change and shared after that (AWS-177 to AWS-180).

use crate::discovered_memory::images_key;
use crate::instance_type::kubelet::ClassKubelet;
use crate::instance_type::{InstanceTypeDescription, ResolveSettings, TypeKey, TypesOfClass};
use crate::lookup::{ClassKey, class_key};
use crate::market::Market;
use crate::offering::{OfferingContext, OfferingsOfClass};
use crate::placement_group::PlacementGroup;
use crate::reservation::ReservationCounts;
use crate::selector::Filter;
use crate::services::{CallResult, Ec2, InstanceTypeZone};
use jiff::Timestamp;
use kerf_api::ec2_node_class::{EC2NodeClass, EC2NodeClassSpec, EC2NodeClassStatus};
use kerf_model::instance_type::{Catalogue, InstanceType};
use kerf_model::intern::Interner;
use kerf_model::price::Price;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists of resolved types kept for classes that share them. Clusters have a handful of kinds of classes.
const RESOLVED_MAX: usize = 16;

/// Why there are no instance types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// EC2 has described none.
    #[error("no instance types found")]
    NoTypes,
    /// EC2 has named no zones for any.
    #[error("no instance types offerings found")]
    NoZones,
    /// The class has no subnets.
    #[error("no subnets found")]
    NoSubnets,
}

/// The filters of DescribeInstanceTypes (AWS-177).
pub fn instance_type_filters() -> [Filter; 2] {
    [
        Filter::new("supported-virtualization-type", ["hvm"]),
        Filter::new("processor-info.supported-architecture", ["x86_64", "arm64"]),
    ]
}

/// EC2's descriptions of instance types.
#[derive(Debug, Default)]
struct Facts {
    descriptions: BTreeMap<String, InstanceTypeDescription>,
    /// Zones by type.
    zones: BTreeMap<String, BTreeSet<String>>,
    /// Zones that have any type.
    all_zones: BTreeSet<String>,
    revision: u64,
}

/// Everything a list depends on.
#[derive(Clone, PartialEq)]
struct ListKey {
    spec: EC2NodeClassSpec,
    status: EC2NodeClassStatus,
    group: Option<PlacementGroup>,
    reservations: BTreeMap<String, u32>,
    overlay_prices: Arc<BTreeMap<String, Price>>,
    shifted: BTreeSet<String>,
    revision: (u64, [u64; 3]),
}

/// Resolved types, still without offerings, with what they depend on: facts and memory besides the class.
type Resolved = (TypeKey, (u64, u64), Arc<Vec<InstanceType>>);

/// Instance types by class.
pub struct InstanceTypes {
    settings: ResolveSettings,
    interner: Arc<Interner>,
    facts: Mutex<Arc<Facts>>,
    resolved: Mutex<Vec<Resolved>>,
    lists: Mutex<BTreeMap<ClassKey, (ListKey, Arc<Catalogue>)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl InstanceTypes {
    /// Instance types that nothing is known of yet.
    pub fn new(settings: ResolveSettings, interner: Arc<Interner>) -> Self {
        Self {
            settings,
            interner,
            facts: Mutex::default(),
            resolved: Mutex::default(),
            lists: Mutex::default(),
        }
    }

    /// Asks EC2 for types and their zones. After an error everything stays as it was (AWS-177).
    pub async fn refresh(&self, ec2: &dyn Ec2) -> CallResult<()> {
        let filters = instance_type_filters();
        let (types, zones) = futures::try_join!(ec2.instance_types(&filters), ec2.instance_type_zones())?;
        self.report(types, zones);
        Ok(())
    }

    /// Takes over what EC2 reported. Lists stay as they are if it is equal to what is known.
    pub fn report(&self, types: Vec<InstanceTypeDescription>, zones: Vec<InstanceTypeZone>) {
        let descriptions: BTreeMap<String, InstanceTypeDescription> =
            types.into_iter().map(|one| (one.name.clone(), one)).collect();
        let mut by_type: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for one in zones {
            by_type.entry(one.instance_type).or_default().insert(one.zone);
        }
        let mut facts = locked(&self.facts);
        if facts.descriptions != descriptions || facts.zones != by_type {
            *facts = Arc::new(Facts {
                descriptions,
                all_zones: by_type.values().flatten().cloned().collect(),
                zones: by_type,
                revision: facts.revision + 1,
            });
        }
    }

    /// The types of a class with their offerings. Returns the same pointer as long as nothing they depend on changes. `overlay_prices` are those of
    /// types that have none in the market (AWS-216).
    pub fn list(
        &self,
        class: &EC2NodeClass,
        group: Option<&PlacementGroup>,
        market: &Market,
        reservations: &ReservationCounts,
        overlay_prices: Arc<BTreeMap<String, Price>>,
        now: Timestamp,
    ) -> Result<Arc<Catalogue>, ListError> {
        let facts = Arc::clone(&locked(&self.facts));
        if facts.descriptions.is_empty() {
            return Err(ListError::NoTypes);
        }
        if facts.zones.is_empty() {
            return Err(ListError::NoZones);
        }
        if class.status.subnets.is_empty() {
            return Err(ListError::NoSubnets);
        }
        let ids = class.status.capacity_reservations.iter().map(|one| one.id.clone());
        let counts = ids.map(|id| (id.clone(), reservations.available(&id))).collect();
        let market_revision = market.revision(now);
        let mut status = EC2NodeClassStatus {
            conditions: Vec::new(),
            ..class.status.clone()
        };
        // They change places whenever their free addresses do.
        status.subnets.sort_by(|a, b| a.id.cmp(&b.id));
        let key = ListKey {
            spec: class.spec.clone(),
            status,
            group: group.cloned(),
            reservations: counts,
            overlay_prices,
            shifted: market.shifts().shifted(now),
            revision: (facts.revision, market_revision),
        };
        let name = class_key(class);
        if let Some((known, list)) = locked(&self.lists).get(&name)
            && *known == key
        {
            return Ok(Arc::clone(list));
        }
        let list = self.compute(class, &facts, &key, market, now);
        locked(&self.lists).insert(name, (key, Arc::clone(&list)));
        Ok(list)
    }

    /// Forgets the lists of classes that are not among these.
    pub fn retain_classes(&self, classes: &[EC2NodeClass]) {
        let keys: BTreeSet<ClassKey> = classes.iter().map(class_key).collect();
        locked(&self.lists).retain(|key, _| keys.contains(key));
    }

    fn compute(
        &self,
        class: &EC2NodeClass,
        facts: &Facts,
        key: &ListKey,
        market: &Market,
        now: Timestamp,
    ) -> Arc<Catalogue> {
        let resolved = self.resolve(class, facts, key.revision.1[1], market, now);
        let prices = market.prices();
        let unavailable = market.unavailable();
        let context = OfferingContext {
            all_zones: &facts.all_zones,
            prices: &prices,
            overlay_prices: &key.overlay_prices,
            unavailable: &unavailable,
            reservation_counts: &key.reservations,
            shifted_zone_ids: &key.shifted,
            group: key.group.as_ref(),
            reserved_capacity: self.settings.reserved_capacity,
            now,
            interner: &self.interner,
        };
        let offerings = OfferingsOfClass::new(class, &context);
        let types = resolved
            .iter()
            .zip(facts.descriptions.values())
            .map(|(kind, description)| {
                let mut kind = kind.clone();
                offerings.inject(&mut kind, description);
                kind
            });
        Arc::new(Catalogue { types: types.collect() })
    }

    /// The types in the order of their descriptions, without offerings.
    fn resolve(
        &self,
        class: &EC2NodeClass,
        facts: &Facts,
        memory_revision: u64,
        market: &Market,
        now: Timestamp,
    ) -> Arc<Vec<InstanceType>> {
        let (key, revision) = (TypeKey::new(class), (facts.revision, memory_revision));
        let mut all = locked(&self.resolved);
        if let Some((_, _, known)) = all.iter().find(|(one, at, _)| *one == key && *at == revision) {
            return Arc::clone(known);
        }
        // Types with the same labels share them.
        let labels = all
            .iter()
            .find(|(one, at, _)| at.0 == revision.0 && one.has_labels_of(&key))
            .map(|(_, _, types)| Arc::clone(types));
        let (images, nowhere) = (images_key(&class.status.amis), BTreeSet::new());
        all.retain(|(_, at, _)| *at == revision);
        let kubelet = ClassKubelet::usable(&class.spec, self.settings.node_class_cel);
        let of_class = TypesOfClass::new(class, &kubelet, &self.settings, &self.interner);
        let types = facts.descriptions.values().enumerate().map(|(at, description)| {
            let zones = facts.zones.get(&description.name).unwrap_or(&nowhere);
            let memory = market.memory(&description.name, images, now);
            let labels = labels.as_ref().and_then(|types| Some(&types.get(at)?.requirements));
            of_class.resolve(description, zones, memory, labels)
        });
        let types = Arc::new(types.collect::<Vec<_>>());
        all.truncate(RESOLVED_MAX - 1);
        all.insert(0, (key, revision, Arc::clone(&types)));
        types
    }

    /// All types by name, as EC2 describes them.
    pub fn descriptions(&self) -> BTreeMap<String, InstanceTypeDescription> {
        locked(&self.facts).descriptions.clone()
    }

    /// The zones that have any type.
    pub fn zones(&self) -> BTreeSet<String> {
        locked(&self.facts).all_zones.clone()
    }

    /// The type of this name, as EC2 describes it.
    pub fn description(&self, name: &str) -> Option<InstanceTypeDescription> {
        locked(&self.facts).descriptions.get(name).cloned()
    }
}
