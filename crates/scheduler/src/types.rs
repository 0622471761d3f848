//! The index over one catalogue. An instance type contributes one *row* per group of offerings with the same allocatable (SCH-127), so
//! that "which types remain" is an AND of row sets.

use crate::amounts::ResourceIndex;
use crate::bits::Bits;
use crate::states::Prices;
use kerf_model::instance_type::{Catalogue, InstanceType, Offering, allocatable};
use kerf_model::intern::{Interner, Sym};
use kerf_model::price::Price;
use kerf_model::requirement::Requirement;
use kerf_model::resources::Resources;
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::Arc;

/// One group of offerings of one type.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Index of the type in the catalogue.
    pub(crate) instance_type: usize,
    /// Its available offerings, as a range of [`TypeIndex::offers`].
    pub(crate) offers: Range<usize>,
    /// What pods and daemons may use of it.
    pub(crate) allocatable: Resources,
}

/// An available offering.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) row: usize,
    /// Index of the offering in its type.
    pub(crate) offering: usize,
    pub(crate) price: Price,
    pub(crate) capacity_type: Option<Sym>,
    /// The reservation it draws on, if it is a reserved one.
    pub(crate) reservation: Option<Sym>,
}

/// The distinct amounts of a resource, ascending, and the rows that have at least as much.
#[derive(Debug, Default)]
struct Levels {
    amounts: Vec<i64>,
    rows: Vec<Bits>,
}

/// Per resource: how many levels are not above all rows of some set.
pub(crate) type Tops = SmallVec<[u32; 4]>;

/// Everything precomputed about a catalogue.
#[derive(Debug)]
pub(crate) struct TypeIndex {
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) rows: Vec<Row>,
    pub(crate) offers: Vec<Offer>,
    /// Rows no amount of which is negative (SCH-122).
    pub(crate) sound: Bits,
    /// The position of each type in the order of names, to break ties.
    pub(crate) name_rank: Vec<u32>,
    /// The types by the ids of their names, the order of values in a requirement.
    pub(crate) by_name_id: Vec<u32>,
    /// Per resource.
    levels: Vec<Levels>,
    /// Per resource: the allocatable of each row.
    pub(crate) amounts: Vec<Vec<i64>>,
}

impl TypeIndex {
    pub(crate) fn new(catalogue: &Arc<Catalogue>, resources: &ResourceIndex, interner: &Interner) -> Self {
        let huge = |name: Sym| interner.text(name).starts_with("hugepages-");
        let mut rows = Vec::with_capacity(catalogue.types.len());
        let mut offers = Vec::new();
        for (at, instance_type) in catalogue.types.iter().enumerate() {
            for group in groups(instance_type) {
                let (first, row) = (offers.len(), rows.len());
                let offerings = available(instance_type).filter(|(_, offering)| overrides(offering) == group);
                offers.extend(offerings.map(|(at, offering)| Offer {
                    row,
                    offering: at,
                    price: offering.price,
                    capacity_type: offering.capacity_type(),
                    reservation: offering.reservation.as_ref().map(|reservation| reservation.id),
                }));
                let capacity = replaced(&instance_type.capacity, group.0);
                let overhead = replaced(&instance_type.overhead, group.1);
                rows.push(Row {
                    instance_type: at,
                    offers: first..offers.len(),
                    allocatable: allocatable(&capacity, &overhead, huge),
                });
            }
        }
        let sound = (0..rows.len())
            .filter(|row| rows[*row].allocatable.iter().all(|(_, amount)| amount >= 0))
            .collect();
        let amounts: Vec<Vec<i64>> = resources
            .names
            .iter()
            .map(|name| rows.iter().map(|row| row.allocatable.get(*name)).collect())
            .collect();
        let levels = amounts.iter().map(|amounts| levels(amounts)).collect();
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
            levels,
            amounts,
        }
    }

    pub(crate) fn instance_type(&self, row: usize) -> &InstanceType {
        &self.catalogue.types[self.rows[row].instance_type]
    }

    pub(crate) fn offering(&self, offer: &Offer) -> &Offering {
        &self.instance_type(offer.row).offerings[offer.offering]
    }

    /// Keeps the rows of `rows` that have at least `total`.
    pub(crate) fn keep_fitting(&self, rows: &mut Bits, total: &[i64]) {
        for (levels, want) in self.levels.iter().zip(total) {
            if *want <= 0 {
                continue;
            }
            let level = levels.amounts.partition_point(|amount| amount < want);
            match levels.rows.get(level) {
                Some(enough) => rows.and(enough),
                None => *rows = Bits::default(),
            }
            if rows.is_empty() {
                return;
            }
        }
    }

    /// What `tops` is for all rows.
    pub(crate) fn tops(&self) -> Tops {
        self.levels.iter().map(|levels| levels.rows.len() as u32).collect()
    }

    /// The most of each resource some row leaves beside `used` and `overhead`. `tops`: of a set that contains these rows; becomes theirs.
    pub(crate) fn room(&self, rows: &Bits, used: &[i64], overhead: &[i64], tops: &mut Tops, room: &mut [i64]) {
        for (at, (levels, top)) in self.levels.iter().zip(tops).enumerate() {
            let below = &levels.rows[..*top as usize];
            if below.last().is_some_and(|highest| !rows.intersects(highest)) {
                *top = below.partition_point(|enough| rows.intersects(enough)) as u32;
            }
            let most = top.checked_sub(1).map_or(0, |level| levels.amounts[level as usize]);
            room[at] = most.saturating_sub(used[at]).saturating_sub(overhead[at]);
        }
    }

    /// Whether one row has at least `total`.
    pub(crate) fn row_fits(&self, row: usize, total: &[i64]) -> bool {
        self.amounts
            .iter()
            .zip(total)
            .all(|(amounts, want)| *want <= 0 || *want <= amounts[row])
    }

    /// Rows whose type's requirements intersect this one (SCH-130).
    pub(crate) fn rows_meeting(&self, requirement: &Requirement, interner: &Interner) -> Bits {
        let mut met = Bits::default();
        let mut last = (usize::MAX, false);
        for (at, row) in self.rows.iter().enumerate() {
            if last.0 != row.instance_type {
                let own = self.catalogue.types[row.instance_type]
                    .requirements
                    .get(requirement.key);
                last = (
                    row.instance_type,
                    own.is_none_or(|own| goes_with(own, requirement, interner)),
                );
            }
            if last.1 {
                met.insert(at);
            }
        }
        met
    }

    /// Offers whose own requirements allow this one.
    pub(crate) fn offers_meeting(&self, requirement: &Requirement, interner: &Interner) -> Bits {
        (0..self.offers.len())
            .filter(|at| {
                let own = self.offering(&self.offers[*at]).requirements.get(requirement.key);
                own.is_none_or(|own| goes_with(own, requirement, interner))
            })
            .collect()
    }

    /// Of these offers the cheapest of each row, by price.
    pub(crate) fn prices(&self, offers: &Bits) -> Prices {
        let mut prices = Prices::new();
        // Offers of one row stand together.
        for at in offers.iter() {
            let offer = &self.offers[at];
            let this = (offer.price, offer.row as u32, at as u32);
            match prices.last_mut() {
                Some(last) if last.1 == this.1 => *last = this.min(*last),
                _ => prices.push(this),
            }
        }
        prices.sort_by_key(|(price, row, _)| (*price, self.name_rank[self.rows[*row as usize].instance_type], *row));
        prices
    }

    /// The keys an offering needs the claim to define: neither well-known nor admitting absence.
    pub(crate) fn demands(&self, known: impl Fn(Sym) -> bool) -> Vec<(usize, Sym)> {
        let mut demands = Vec::new();
        for (at, offer) in self.offers.iter().enumerate() {
            for requirement in &self.offering(offer).requirements {
                if !known(requirement.key) && !requirement.admits_absence() {
                    demands.push((at, requirement.key));
                }
            }
        }
        demands
    }
}

/// Whether two requirements on one key go together: a common value, or both satisfied by absence (SCH-100).
pub(crate) fn goes_with(a: &Requirement, b: &Requirement, interner: &Interner) -> bool {
    a.intersects(b, interner) || (a.admits_absence() && b.admits_absence())
}

/// What an offering has instead of its type's capacity and overhead.
type Overrides<'x> = (Option<&'x Resources>, Option<&'x Resources>);

fn overrides(offering: &Offering) -> Overrides<'_> {
    (offering.capacity_override.as_ref(), offering.overhead_override.as_ref())
}

fn available(instance_type: &InstanceType) -> impl Iterator<Item = (usize, &Offering)> {
    let offerings = instance_type.offerings.iter().enumerate();
    offerings.filter(|(_, offering)| offering.available)
}

/// SCH-127: the distinct overrides of available offerings, none first.
fn groups(instance_type: &InstanceType) -> SmallVec<[Overrides<'_>; 2]> {
    let mut found = SmallVec::from_slice(&[(None, None)]);
    for (_, offering) in available(instance_type) {
        let group = overrides(offering);
        if !found.contains(&group) {
            found.push(group);
        }
    }
    found
}

fn replaced(base: &Resources, over: Option<&Resources>) -> Resources {
    let mut all = base.clone();
    for (name, amount) in over.into_iter().flat_map(Resources::iter) {
        all.set(name, amount);
    }
    all
}

fn levels(amounts: &[i64]) -> Levels {
    let mut order: Vec<usize> = (0..amounts.len()).collect();
    order.sort_by_key(|row| std::cmp::Reverse(amounts[*row]));
    let mut levels = Levels::default();
    let mut enough = Bits::default();
    for (at, row) in order.iter().enumerate() {
        enough.insert(*row);
        if order.get(at + 1).is_none_or(|next| amounts[*next] != amounts[*row]) {
            levels.amounts.push(amounts[*row]);
            levels.rows.push(enough.clone());
        }
    }
    levels.amounts.reverse();
    levels.rows.reverse();
    levels
}
