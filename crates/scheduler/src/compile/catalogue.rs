//! An index over one catalogue of instance types. A type has one *row* per group of offerings with equal allocatable (SCH-127), so that the
//! types that remain are an intersection of row sets.

use crate::compile::requirements::requirements_overlap;
use crate::dense::amounts::ResourceIndex;
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::instance_type::{Catalogue, InstanceType, Offering, allocatable, overridden};
use kerf_model::intern::{Interner, Sym};
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// The id of a catalogue.
pub(crate) type CatalogueId = Id<TypeIndex>;
/// The id of a row.
pub(crate) type RowId = Id<TypeRow>;
/// The id of an available offering.
pub(crate) type OfferId = Id<Offer>;

/// The cheapest offer of each row, cheapest first: price, row, offer.
pub(crate) type OffersByPrice = Vec<(Price, RowId, OfferId)>;

/// A group of offerings of one instance type with equal allocatable.
#[derive(Clone, Debug)]
pub(crate) struct TypeRow {
    /// Index of the instance type in the catalogue.
    pub(crate) instance_type: usize,
    /// Its available offerings, as a range of [`TypeIndex::offers`].
    offers: Range<usize>,
    /// What pods and DaemonSets may use together.
    pub(crate) allocatable: Resources,
}

/// An available offering of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) row: RowId,
    /// Index of the offering in its instance type.
    pub(crate) offering: usize,
    pub(crate) price: Price,
    pub(crate) capacity_type: Option<Sym>,
    /// The id of its reservation, if it is a reserved offering.
    pub(crate) reservation: Option<Sym>,
}

/// The distinct amounts of one resource, ascending, and for each the rows that have at least as much.
#[derive(Debug, Default)]
struct Thresholds {
    amounts: Vec<i64>,
    rows: Vec<IdSet<TypeRow>>,
}

/// Per resource: the number of leading thresholds that at least one row of some set reaches.
pub(crate) type ThresholdCounts = SmallVec<[u32; 4]>;

/// A catalogue with everything that is precomputed about it.
#[derive(Debug)]
pub(crate) struct TypeIndex {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) rows: IdVec<TypeRow, TypeRow>,
    pub(crate) offers: IdVec<Offer, Offer>,
    /// Rows without a negative amount (SCH-122).
    pub(crate) sound: IdSet<TypeRow>,
    /// The rank of each type by name, for ties.
    pub(crate) name_rank: Vec<u32>,
    /// The types in the order of their interned names, which is the order of values in a requirement.
    pub(crate) by_name_id: Vec<u32>,
    /// Per resource.
    thresholds: Vec<Thresholds>,
    /// Per resource: the allocatable of each row, in the model's units.
    pub(crate) amounts: Vec<IdVec<TypeRow, i64>>,
}

impl TypeIndex {
    /// Indexes a catalogue.
    pub(crate) fn new(catalogue: &Arc<Catalogue>, resources: &ResourceIndex, interner: &Interner) -> Self {
        let huge = |name: Sym| interner.text(name).starts_with("hugepages-");
        let mut rows: IdVec<TypeRow, TypeRow> = IdVec::with_capacity(catalogue.types.len());
        let mut offers: IdVec<Offer, Offer> = IdVec::new();
        for (at, instance_type) in catalogue.types.iter().enumerate() {
            for group in groups(instance_type) {
                let (first, row) = (offers.len(), rows.next_id());
                let offerings = available(instance_type).filter(|(_, offering)| overrides(offering) == group);
                offers.extend(offerings.map(|(at, offering)| Offer {
                    row,
                    offering: at,
                    price: offering.price,
                    capacity_type: offering.capacity_type(),
                    reservation: offering.reservation.as_ref().map(|reservation| reservation.id),
                }));
                let capacity = overridden(&instance_type.capacity, group.0);
                let overhead = overridden(&instance_type.overhead, group.1);
                rows.push(TypeRow {
                    instance_type: at,
                    offers: first..offers.len(),
                    allocatable: allocatable(&capacity, &overhead, huge),
                });
            }
        }
        let sound = rows
            .ids()
            .filter(|row| rows[*row].allocatable.iter().all(|(_, amount)| amount >= 0))
            .collect();
        let amounts: Vec<IdVec<TypeRow, i64>> = resources
            .names
            .iter()
            .map(|name| rows.iter().map(|row| row.allocatable.get(*name)).collect())
            .collect();
        let thresholds = amounts.iter().map(thresholds).collect();
        let mut by_name: Vec<usize> = (0..catalogue.types.len()).collect();
        by_name.sort_by_key(|at| interner.text(catalogue.types[*at].name));
        let mut name_rank = vec![0; by_name.len()];
        for (rank, at) in by_name.into_iter().enumerate() {
            name_rank[at] = rank as u32;
        }
        let mut by_name_id: Vec<u32> = (0..catalogue.types.len() as u32).collect();
        by_name_id.sort_by_key(|at| catalogue.types[*at as usize].name);
        Self {
            by_name_id,
            catalogue: Arc::clone(catalogue),
            rows,
            offers,
            sound,
            name_rank,
            thresholds,
            amounts,
        }
    }

    pub(crate) fn instance_type(&self, row: RowId) -> &InstanceType {
        &self.catalogue.types[self.rows[row].instance_type]
    }

    /// The rows of the same instance type as a row, that row included. They are adjacent.
    pub(crate) fn rows_of_type(&self, row: RowId) -> impl Iterator<Item = RowId> {
        let instance_type = self.rows[row].instance_type;
        let same = move |at: &usize| self.rows[RowId::new(*at)].instance_type == instance_type;
        let first = (0..=row.index()).rev().take_while(same).last();
        let rows = first.unwrap_or(row.index())..self.rows.len();
        rows.take_while(same).map(RowId::new)
    }

    /// The available offerings of a row.
    pub(crate) fn offers_of(&self, row: RowId) -> impl Iterator<Item = &Offer> {
        let offers = self.rows[row].offers.clone();
        offers.map(|at| &self.offers[OfferId::new(at)])
    }

    pub(crate) fn offering(&self, offer: &Offer) -> &Offering {
        &self.instance_type(offer.row).offerings[offer.offering]
    }

    /// Removes the rows that have less than `total` of some resource.
    pub(crate) fn keep_fitting(&self, rows: &mut IdSet<TypeRow>, total: &[i64]) {
        for (thresholds, want) in self.thresholds.iter().zip(total) {
            if *want <= 0 {
                continue;
            }
            let threshold = thresholds.amounts.partition_point(|amount| amount < want);
            match thresholds.rows.get(threshold) {
                Some(enough) => rows.and(enough),
                None => *rows = IdSet::default(),
            }
            if rows.is_empty() {
                return;
            }
        }
    }

    /// The threshold counts of the set of all rows.
    pub(crate) fn threshold_counts(&self) -> ThresholdCounts {
        self.thresholds
            .iter()
            .map(|thresholds| thresholds.rows.len() as u32)
            .collect()
    }

    /// Writes to `room` the largest amount of each resource that some row leaves after `used` and `overhead`. `threshold_counts` comes from
    /// a superset of `rows` and is lowered to those of `rows`.
    pub(crate) fn room(
        &self,
        rows: &IdSet<TypeRow>,
        used: &[i64],
        overhead: &[i64],
        threshold_counts: &mut ThresholdCounts,
        room: &mut [i64],
    ) {
        for (at, (thresholds, top)) in self.thresholds.iter().zip(threshold_counts).enumerate() {
            let below = &thresholds.rows[..*top as usize];
            if below.last().is_some_and(|highest| !rows.intersects(highest)) {
                *top = below.partition_point(|enough| rows.intersects(enough)) as u32;
            }
            let most = top
                .checked_sub(1)
                .map_or(0, |threshold| thresholds.amounts[threshold as usize]);
            room[at] = most.saturating_sub(used[at]).saturating_sub(overhead[at]);
        }
    }

    /// Returns whether a row has at least `total` of every resource.
    pub(crate) fn row_fits(&self, row: RowId, total: &[i64]) -> bool {
        self.amounts
            .iter()
            .zip(total)
            .all(|(amounts, want)| *want <= 0 || *want <= amounts[row])
    }

    /// The rows whose instance type meets a requirement (SCH-130).
    pub(crate) fn rows_meeting(&self, requirement: &Requirement, interner: &Interner) -> IdSet<TypeRow> {
        let mut matching = IdSet::default();
        let mut last = (usize::MAX, false);
        for (id, row) in self.rows.entries() {
            if last.0 != row.instance_type {
                let own = self.catalogue.types[row.instance_type]
                    .requirements
                    .get(requirement.key);
                last = (
                    row.instance_type,
                    own.is_none_or(|own| requirements_overlap(own, requirement, interner)),
                );
            }
            if last.1 {
                matching.insert(id);
            }
        }
        matching
    }

    /// The offers whose own requirements allow this one.
    pub(crate) fn offers_meeting(&self, requirement: &Requirement, interner: &Interner) -> IdSet<Offer> {
        self.offers
            .ids()
            .filter(|at| {
                let own = self.offering(&self.offers[*at]).requirements.get(requirement.key);
                own.is_none_or(|own| requirements_overlap(own, requirement, interner))
            })
            .collect()
    }

    /// The cheapest of these offers for each row, by price, then by type name.
    pub(crate) fn offers_by_price(&self, offers: &IdSet<Offer>) -> OffersByPrice {
        let mut offers_by_price = OffersByPrice::new();
        // Offers of one row are adjacent.
        for at in offers.iter() {
            let offer = &self.offers[at];
            let this = (offer.price, offer.row, at);
            match offers_by_price.last_mut() {
                Some(last) if last.1 == this.1 => *last = this.min(*last),
                _ => offers_by_price.push(this),
            }
        }
        offers_by_price.sort_by_key(|(price, row, _)| (*price, self.name_rank[self.rows[*row].instance_type], *row));
        offers_by_price
    }

    /// The keys that offers need a claim to define: keys that are not well-known and whose absence the offering does not admit. Pairs of
    /// offer and key.
    pub(crate) fn required_keys(&self, may_be_undefined: impl Fn(Sym) -> bool) -> Vec<(OfferId, Sym)> {
        let mut required_keys = Vec::new();
        for (id, offer) in self.offers.entries() {
            for requirement in &self.offering(offer).requirements {
                if !may_be_undefined(requirement.key) && !requirement.admits_absence() {
                    required_keys.push((id, requirement.key));
                }
            }
        }
        required_keys
    }
}

/// The capacity and the overhead an offering has instead of those of its type.
type OfferingOverrides<'x> = (Option<&'x Resources>, Option<&'x Resources>);

fn overrides(offering: &Offering) -> OfferingOverrides<'_> {
    (
        offering.capacity_override.as_deref(),
        offering.overhead_override.as_deref(),
    )
}

/// The available offerings of a type, with their indexes.
fn available(instance_type: &InstanceType) -> impl Iterator<Item = (usize, &Offering)> {
    let offerings = instance_type.offerings.iter().enumerate();
    offerings.filter(|(_, offering)| offering.available)
}

/// The distinct overrides of available offerings, the one without overrides first (SCH-127).
fn groups(instance_type: &InstanceType) -> SmallVec<[OfferingOverrides<'_>; 2]> {
    let mut found = SmallVec::from_slice(&[(None, None)]);
    for (_, offering) in available(instance_type) {
        let group = overrides(offering);
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

/// The thresholds of one resource, from its amount per row.
fn thresholds(amounts: &IdVec<TypeRow, i64>) -> Thresholds {
    let mut order: Vec<RowId> = amounts.ids().collect();
    order.sort_by_key(|row| std::cmp::Reverse(amounts[*row]));
    let mut thresholds = Thresholds::default();
    let mut enough = IdSet::default();
    for (at, row) in order.iter().enumerate() {
        enough.insert(*row);
        if order.get(at + 1).is_none_or(|next| amounts[*next] != amounts[*row]) {
            thresholds.amounts.push(amounts[*row]);
            thresholds.rows.push(enough.clone());
        }
    }
    thresholds.amounts.reverse();
    thresholds.rows.reverse();
    thresholds
}
