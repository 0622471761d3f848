//! Building instance types from plain text and numbers.

use kerf_model::instance_type::{InstanceType, Offering, Reservation};
use kerf_model::intern::{Interner, Sym, sym};
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use kerf_model::resources::Resources;

/// Builds one instance type; zone and capacity type of the type follow from its offerings.
#[derive(Debug)]
pub struct TypeBuilder<'a> {
    interner: &'a Interner,
    kind: InstanceType,
}

impl<'a> TypeBuilder<'a> {
    /// A type of this name, with the label of its name.
    pub fn new(interner: &'a Interner, name: &str) -> Self {
        let name = interner.intern(name);
        let mut requirements = Requirements::new();
        requirements.replace(Requirement::is(sym::INSTANCE_TYPE, name));
        Self {
            interner,
            kind: InstanceType {
                name,
                requirements,
                capacity: Resources::new(),
                overhead: Resources::new(),
                offerings: Vec::new(),
                price_overlaid: false,
                capacity_overlaid: false,
            },
        }
    }

    /// `key In [value]`.
    #[must_use]
    pub fn label(self, key: &str, value: &str) -> Self {
        self.labels(key, [value])
    }

    /// `key In values`; no values mean `DoesNotExist`.
    #[must_use]
    pub fn labels<'v>(self, key: &str, values: impl IntoIterator<Item = &'v str>) -> Self {
        let key = self.interner.intern(key);
        let values: Vec<Sym> = values.into_iter().map(|value| self.interner.intern(value)).collect();
        self.require(Requirement::any_of(key, values))
    }

    /// A requirement as it is, in place of any other on its key.
    #[must_use]
    pub fn require(mut self, requirement: Requirement) -> Self {
        self.kind.requirements.replace(requirement);
        self
    }

    /// An amount of a resource, in the model's units.
    #[must_use]
    pub fn capacity(mut self, name: Sym, amount: i64) -> Self {
        self.kind.capacity.set(name, amount);
        self
    }

    /// The part of a resource that pods cannot use, in the model's units.
    #[must_use]
    pub fn overhead(mut self, name: Sym, amount: i64) -> Self {
        self.kind.overhead.set(name, amount);
        self
    }

    /// An available offering in a zone.
    #[must_use]
    pub fn offering(self, zone: &str, capacity_type: &str, price: Price) -> Self {
        let zone = self.interner.intern(zone);
        let capacity_type = self.interner.intern(capacity_type);
        self.offer(plain_offering(zone, capacity_type, price))
    }

    /// An available reserved offering with `left` instances left.
    #[must_use]
    pub fn reserved(self, zone: &str, id_label: &str, id: &str, left: u32, price: Price) -> Self {
        let id = self.interner.intern(id);
        let id_label = self.interner.intern(id_label);
        let mut offering = plain_offering(self.interner.intern(zone), sym::RESERVED, price);
        offering.requirements.replace(Requirement::is(id_label, id));
        offering.reservation = Some(Reservation { id, capacity: left });
        self.offer(offering)
    }

    /// An offering as it is.
    #[must_use]
    pub fn offer(mut self, offering: Offering) -> Self {
        self.kind.offerings.push(offering);
        self
    }

    /// Builds the type.
    pub fn build(mut self) -> InstanceType {
        for key in [sym::ZONE, sym::CAPACITY_TYPE] {
            let values: Vec<Sym> = self
                .kind
                .offerings
                .iter()
                .filter_map(|offering| offering.value(key))
                .collect();
            self.kind.requirements.replace(Requirement::any_of(key, values));
        }
        self.kind
    }
}

/// An available offering without reservation or overrides.
pub fn plain_offering(zone: Sym, capacity_type: Sym, price: Price) -> Offering {
    let mut requirements = Requirements::new();
    requirements.replace(Requirement::is(sym::ZONE, zone));
    requirements.replace(Requirement::is(sym::CAPACITY_TYPE, capacity_type));
    Offering {
        requirements,
        price,
        available: true,
        reservation: None,
        capacity_override: None,
        overhead_override: None,
    }
}
