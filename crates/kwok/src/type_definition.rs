//! An instance type as a catalogue file defines it, and the model's instance type built from it (KWK-020 to KWK-025).

use kerf_api::labels::kwok;
use kerf_cloud::plain_offering;
use kerf_model::instance_type::{InstanceType, Offering, Reservation};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Operator, Requirement, Requirements};
use kerf_model::resources::Resources;
use kerf_units::quantity::Quantity;

/// Pods per node where a description names no number (KWK-016).
pub(crate) const PODS_DEFAULT: i64 = 110;
// What every type reserves for the kubelet (KWK-024).
const KUBE_RESERVED_CPU_MILLI: i64 = 100;
const KUBE_RESERVED_MEMORY_BYTES: i64 = 10 << 20;

/// The definition of one type.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeDefinition {
    pub(crate) name: String,
    pub(crate) architecture: String,
    pub(crate) operating_systems: Vec<String>,
    /// In the order of the file.
    pub(crate) resources: Vec<(String, Quantity)>,
    pub(crate) offerings: Vec<OfferingDefinition>,
}

/// The definition of one offering.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfferingDefinition {
    pub(crate) price: Price,
    pub(crate) reservation_capacity: u32,
    pub(crate) requirements: Vec<(String, Operator, Vec<String>)>,
}

impl TypeDefinition {
    fn resource(&self, name: &str) -> Option<&Quantity> {
        self.resources
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, amount)| amount)
    }

    /// Builds the model's instance type.
    pub(crate) fn build(&self, interner: &Interner) -> InstanceType {
        let name = interner.intern(&self.name);
        let mut requirements = Requirements::new();
        let mut require = |key: Sym, values: Vec<Sym>| requirements.replace(Requirement::any_of(key, values));
        require(sym::INSTANCE_TYPE, vec![name]);
        require(sym::ARCH, vec![interner.intern(&self.architecture)]);
        require(
            sym::OS,
            self.operating_systems.iter().map(|os| interner.intern(os)).collect(),
        );
        for (key, text) in [
            (sym::ZONE, interner.text(sym::ZONE)),
            (sym::CAPACITY_TYPE, interner.text(sym::CAPACITY_TYPE)),
        ] {
            require(key, self.offered_values(text, interner));
        }
        let canonical = |resource: &str| self.resource(resource).map(ToString::to_string).unwrap_or_default();
        let cpu = canonical("cpu");
        for (key, value) in [
            (kwok::INSTANCE_SIZE, size_label(&self.name).unwrap_or(&cpu)),
            (kwok::INSTANCE_FAMILY, family_label(&self.name)),
            (kwok::INSTANCE_CPU, &cpu),
            (kwok::INSTANCE_MEMORY, &canonical("memory")),
        ] {
            require(interner.intern(key), vec![interner.intern(value)]);
        }
        InstanceType {
            name,
            requirements,
            capacity: self.capacity(interner),
            overhead: Resources::new()
                .with(sym::CPU, KUBE_RESERVED_CPU_MILLI)
                .with(sym::MEMORY, KUBE_RESERVED_MEMORY_BYTES),
            offerings: self.offerings.iter().map(|offering| offering.build(interner)).collect(),
            price_overlaid: false,
            capacity_overlaid: false,
        }
    }

    /// The values of the first requirement on a key of each offering, whatever its operator (KWK-020).
    fn offered_values(&self, key: &str, interner: &Interner) -> Vec<Sym> {
        let firsts = self
            .offerings
            .iter()
            .filter_map(|offering| offering.requirements.iter().find(|(k, _, _)| k == key));
        firsts
            .flat_map(|(_, _, values)| values)
            .map(|value| interner.intern(value))
            .collect()
    }

    fn capacity(&self, interner: &Interner) -> Resources {
        let mut capacity = Resources::new().with(sym::PODS, PODS_DEFAULT);
        for (name, amount) in &self.resources {
            let id = interner.intern(name);
            let amount = if id == sym::CPU {
                amount.milli_floor()
            } else {
                amount.units_floor()
            };
            capacity.set(id, amount);
        }
        capacity
    }
}

impl OfferingDefinition {
    /// Always available (KWK-015), with the requirements as written (KWK-025).
    fn build(&self, interner: &Interner) -> Offering {
        let mut requirements = Requirements::new();
        for (key, operator, values) in &self.requirements {
            requirements.add(requirement(interner.intern(key), *operator, values, interner), interner);
        }
        let reserved = requirements
            .get(sym::CAPACITY_TYPE)
            .is_some_and(|r| r.single() == Some(sym::RESERVED));
        let reservation = reserved.then(|| Reservation {
            id: reservation_id(&requirements, interner),
            capacity: self.reservation_capacity,
        });
        Offering {
            requirements,
            reservation,
            ..plain_offering(sym::EMPTY, sym::EMPTY, self.price)
        }
    }
}

/// Whether a label key carries the id of a capacity reservation.
pub(crate) fn is_reservation_id_key(key: &str) -> bool {
    key.ends_with("reservation-id")
}

/// The id by which reserved offerings share their capacity; without such a key, the requirements themselves identify it.
fn reservation_id(requirements: &Requirements, interner: &Interner) -> Sym {
    let named = requirements
        .iter()
        .find(|r| is_reservation_id_key(interner.text(r.key)));
    named
        .and_then(Requirement::single)
        .unwrap_or_else(|| interner.intern(&requirements.print(interner)))
}

fn requirement(key: Sym, operator: Operator, values: &[String], interner: &Interner) -> Requirement {
    let interned = values.iter().map(|value| interner.intern(value));
    let bound = || values.first().and_then(|value| value.parse::<i64>().ok());
    match operator {
        Operator::In => Requirement::any_of(key, interned),
        Operator::NotIn => Requirement::none_of(key, interned),
        Operator::Exists => Requirement::exists(key),
        Operator::DoesNotExist => Requirement::does_not_exist(key),
        Operator::Gt => bound().map_or_else(|| Requirement::does_not_exist(key), |n| Requirement::greater(key, n)),
        Operator::Lt => bound().map_or_else(|| Requirement::does_not_exist(key), |n| Requirement::less(key, n)),
        Operator::Gte => Requirement::between(key, bound(), None),
        Operator::Lte => Requirement::between(key, None, bound()),
    }
}

/// The size in names such as `m5.2xlarge` (KWK-021).
pub(crate) fn size_label(name: &str) -> Option<&str> {
    let (family, size) = name.split_once('.')?;
    let word = !family.is_empty() && family.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let known = matches!(size, "nano" | "micro" | "small" | "medium" | "large" | "metal")
        || size
            .strip_suffix("xlarge")
            .is_some_and(|count| count.bytes().all(|b| b.is_ascii_digit()));
    (word && known).then_some(size)
}

/// The family in names such as `m5.2xlarge` and `c-4x-amd64-linux` (KWK-022).
pub(crate) fn family_label(name: &str) -> &str {
    match name.find(['.', '-']) {
        Some(at) => name.split_at(at).0,
        None => name.char_indices().nth(1).map_or(name, |(at, _)| name.split_at(at).0),
    }
}
