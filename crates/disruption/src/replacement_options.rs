//! The instance types a replacement may become, and their prices (DIS-132 to DIS-140, DIS-148, DIS-200).

use kerf_model::instance_type::{InstanceType, Offering};
use kerf_model::intern::{Sym, sym};
use kerf_model::plan::Launch;
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::snapshot::Snapshot;

/// The capacity types in the order in which a launch prefers them (DIS-135).
const PREFERENCE: [Sym; 3] = [sym::RESERVED, sym::SPOT, sym::ON_DEMAND];

/// A launch whose instance types are narrowed step by step.
#[derive(Clone, Debug)]
pub(crate) struct ReplacementOptions<'a> {
    snapshot: &'a Snapshot,
    launch: Launch,
}

impl<'a> ReplacementOptions<'a> {
    pub(crate) const fn new(snapshot: &'a Snapshot, launch: Launch) -> Self {
        Self { snapshot, launch }
    }

    /// How many types are left.
    pub(crate) fn len(&self) -> usize {
        self.launch.types.len()
    }

    fn instance_type(&self, number: u32) -> Option<&InstanceType> {
        self.launch.catalogue.types.get(number as usize)
    }

    /// The names of the types left.
    pub(crate) fn names(&self) -> impl Iterator<Item = Sym> {
        let kinds = self.launch.types.iter();
        kinds.filter_map(|number| Some(self.instance_type(*number)?.name))
    }

    /// The available offerings of a type the launch may use, by their position.
    fn offerings<'k>(&'k self, kind: &'k InstanceType) -> impl Iterator<Item = (usize, &'k Offering)> {
        let usable = |(_, offering): &(usize, &Offering)| {
            let known = |key| self.snapshot.is_well_known(key) || self.snapshot.reservation_key == Some(key);
            offering.available
                && self
                    .launch
                    .requirements
                    .compatible(&offering.requirements, known, &self.snapshot.interner)
                    .is_ok()
                && self.has_room(kind, offering)
        };
        kind.offerings.iter().enumerate().filter(usable)
    }

    /// Whether the planned pods still fit an offering that overrides its type's capacity (SCH-127).
    fn has_room(&self, kind: &InstanceType, offering: &Offering) -> bool {
        if offering.capacity_override.is_none() && offering.overhead_override.is_none() {
            return true;
        }
        let huge = |name| self.snapshot.interner.text(name).starts_with("hugepages-");
        self.launch.requests.fits(&kind.allocatable_of(offering, huge))
    }

    /// The cheapest way to launch a type: price and offering.
    fn cheapest(&self, number: u32) -> Option<(Price, u32)> {
        let kind = self.instance_type(number)?;
        let prices = self
            .offerings(kind)
            .map(|(at, offering)| (offering.price, u32::try_from(at).unwrap_or(u32::MAX)));
        prices.min()
    }

    /// The highest price at which a type may be launched, given the preferred capacity type (DIS-135, DIS-136).
    fn worst_price(&self, number: u32) -> Option<Price> {
        let kind = self.instance_type(number)?;
        let mut worst: [Option<Price>; PREFERENCE.len()] = Default::default();
        for (_, offering) in self.offerings(kind) {
            let rank = PREFERENCE
                .iter()
                .position(|capacity| offering.capacity_type() == Some(*capacity));
            if let Some(slot) = rank.and_then(|rank| worst.get_mut(rank)) {
                *slot = (*slot).max(Some(offering.price));
            }
        }
        worst.into_iter().flatten().next()
    }

    /// Keeps the types whose highest price is below `limit` (DIS-134). Types are ordered by lowest price, so the search ends at the first type
    /// whose lowest price is not.
    pub(crate) fn keep_cheaper(&mut self, limit: Price) {
        let candidates = self.launch.types.iter().copied();
        let possible = candidates.take_while(|number| self.cheapest(*number).is_some_and(|(price, _)| price < limit));
        let cheaper = possible.filter(|number| self.worst_price(*number).is_some_and(|price| price < limit));
        self.launch.types = cheaper.collect();
    }

    /// Whether the launch may have this capacity type.
    pub(crate) fn allows(&self, capacity: Sym) -> bool {
        let requirement = self.launch.requirements.get(sym::CAPACITY_TYPE);
        requirement.is_none_or(|requirement| requirement.has(capacity, &self.snapshot.interner))
    }

    /// Allows spot capacity only. Types without spot offerings are dropped, and the others are sorted again (DIS-139, DIS-144).
    pub(crate) fn go_spot(&mut self) {
        let least = self
            .launch
            .requirements
            .get(sym::CAPACITY_TYPE)
            .and_then(|requirement| requirement.min_values);
        let spot = Requirement::is(sym::CAPACITY_TYPE, sym::SPOT).with_min_values(least);
        self.launch.requirements.replace(spot);
        let mut priced: Vec<(Price, usize, u32)> = Vec::new();
        for (at, number) in self.launch.types.iter().enumerate() {
            priced.extend(self.cheapest(*number).map(|(price, _)| (price, at, *number)));
        }
        priced.sort_unstable();
        self.launch.types = priced.into_iter().map(|(_, _, number)| number).collect();
    }

    /// Keeps those of spot and on-demand capacity that the remaining types still offer.
    pub(crate) fn narrow_capacity(&mut self) {
        let kinds = self
            .launch
            .types
            .iter()
            .filter_map(|number| self.instance_type(*number));
        let left: Vec<Sym> = kinds
            .flat_map(|kind| self.offerings(kind))
            .filter_map(|(_, offering)| offering.capacity_type())
            .collect();
        let least = self
            .launch
            .requirements
            .get(sym::CAPACITY_TYPE)
            .and_then(|requirement| requirement.min_values);
        if !left.is_empty() {
            let narrowed = Requirement::any_of(sym::CAPACITY_TYPE, left).with_min_values(least);
            self.launch.requirements.replace(narrowed);
        }
    }

    /// The keys whose `minValues` the first `count` types do not meet, sorted and separated by spaces; `None` if all are met, or if there is no
    /// type at all (DIS-137).
    pub(crate) fn unmet_min_values(&self, count: usize) -> Option<String> {
        let types = self.launch.types.get(..count).unwrap_or(&self.launch.types);
        let mut unmet: Vec<&str> = Vec::new();
        for requirement in &self.launch.requirements {
            let Some(least) = requirement.min_values else { continue };
            let own = types.iter().filter_map(|number| {
                let own = self.instance_type(*number)?.requirements.get(requirement.key)?;
                (!own.complement).then_some(own)
            });
            let mut values: Vec<Sym> = own.flat_map(|own| own.values.iter().copied()).collect();
            values.sort_unstable();
            values.dedup();
            if values.len() < least as usize && !types.is_empty() {
                unmet.push(self.snapshot.interner.text(requirement.key));
            }
        }
        unmet.sort_unstable();
        (!unmet.is_empty()).then(|| unmet.join(" "))
    }

    /// How many of the cheapest types are needed to meet every `minValues` (DIS-148).
    pub(crate) fn needed_for_min_values(&self) -> usize {
        if !self.launch.requirements.has_min_values() {
            return 0;
        }
        // Feasibility is monotone in the number of types: binary search finds the smallest one.
        let (mut low, mut high) = (1, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.unmet_min_values(middle) {
                Some(_) => low = middle + 1,
                None => high = middle,
            }
        }
        low
    }

    /// Keeps the first types.
    pub(crate) fn cut(&mut self, count: usize) {
        self.launch.types.truncate(count);
    }

    /// The launch with the remaining types. Its requirement on the instance type and its cheapest offering agree with them (DIS-200).
    pub(crate) fn into_launch(mut self) -> Launch {
        let least = self
            .launch
            .requirements
            .get(sym::INSTANCE_TYPE)
            .and_then(|requirement| requirement.min_values);
        let names: Vec<Sym> = self.names().collect();
        let narrowed = Requirement::any_of(sym::INSTANCE_TYPE, names).with_min_values(least);
        self.launch.requirements.replace(narrowed);
        let first = self.launch.types.first().copied();
        self.launch.cheapest = first.and_then(|number| Some((number, self.cheapest(number)?.1)));
        self.launch
    }
}
