//! Requirement states of claims: what a template's requirements have become after merging pods, volumes and topology. Equal states share
//! one number, and merging is remembered, so that the algebra costs what the *distinct* merges cost.

use crate::bits::Bits;
use crate::requirements::{ReqId, ReqSet};
use crate::world::World;
use kerf_model::intern::Sym;
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// The number of a state.
pub(crate) type StateId = u32;

/// Which domains of one topology key a claim in some state may land in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains {
    /// Whether its node will carry the key at all.
    pub(crate) defined: bool,
    pub(crate) bits: Bits,
    /// The domain, once it is settled.
    pub(crate) one: Option<u32>,
}

impl Domains {
    /// Whether its node will be in no domain.
    pub(crate) fn nowhere(&self) -> bool {
        !self.defined || (self.one.is_none() && self.bits.is_empty())
    }
}

/// The cheapest ways to launch, cheapest first: price, row, offer.
pub(crate) type Prices = Vec<(Price, u32, u32)>;

/// A requirement state.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) template: usize,
    pub(crate) requirements: Requirements,
    /// Rows that meet the requirements and have a compatible available offering.
    pub(crate) rows: Bits,
    /// Those offerings.
    pub(crate) offers: Bits,
    /// By topology key.
    pub(crate) domains: SmallVec<[Domains; 2]>,
    /// Rows with compatible available reserved offerings, and the reservation's id.
    pub(crate) reserved: Vec<(u32, Sym)>,
    prices: Option<Arc<Prices>>,
    /// Per capacity type, by id: the rows with a compatible available offering of it.
    capacity_types: Option<Vec<(Sym, Bits)>>,
}

/// All states met so far, and the memory of merges.
#[derive(Clone, Debug, Default)]
pub(crate) struct States {
    pub(crate) list: Vec<State>,
    ids: FxHashMap<(usize, Requirements), StateId>,
    joins: FxHashMap<(StateId, ReqId), Option<StateId>>,
    pins: FxHashMap<(StateId, u32, u32), StateId>,
}

impl States {
    pub(crate) fn get(&self, id: StateId) -> &State {
        &self.list[id as usize]
    }

    /// The state with these requirements.
    pub(crate) fn intern(&mut self, world: &World<'_>, template: usize, requirements: Requirements) -> StateId {
        let found = self.ids.get(&(template, requirements.clone())).copied();
        found.unwrap_or_else(|| {
            let state = self.make(world, template, requirements);
            let id = self.list.len() as StateId;
            self.ids.insert((template, state.requirements.clone()), id);
            self.list.push(state);
            id
        })
    }

    /// Merges what a pod asks for; `None` where that is incompatible (SCH-101) or leaves no offering of any type.
    pub(crate) fn join(&mut self, world: &World<'_>, state: StateId, wanted: ReqId) -> Option<StateId> {
        if let Some(known) = self.joins.get(&(state, wanted)) {
            return *known;
        }
        let joined = self.merge(world, state, world.req_sets.get(wanted));
        self.joins.insert((state, wanted), joined);
        joined
    }

    fn merge(&mut self, world: &World<'_>, state: StateId, wanted: &ReqSet) -> Option<StateId> {
        if wanted.contradiction.is_some() || !wanted.allows_new_host() {
            return None;
        }
        if wanted.labels.is_empty() {
            return Some(state);
        }
        let have = self.get(state);
        have.requirements
            .compatible(&wanted.labels, |key| world.is_known(key), world.interner())
            .ok()?;
        let mut merged = have.requirements.clone();
        for want in &wanted.labels {
            // Opting out of a label that the machine will not have is no reason to let it have another value (SCH-253).
            if merged.get(want.key).is_some() || world.is_known(want.key) {
                merged.add(want.clone(), world.interner());
            }
        }
        let template = have.template;
        let id = self.intern(world, template, merged);
        (!self.get(id).rows.is_empty()).then_some(id)
    }

    /// Settles a topology key on one domain.
    pub(crate) fn pin(&mut self, world: &World<'_>, state: StateId, key: u32, domain: u32) -> StateId {
        if self.get(state).domains[key as usize].one == Some(domain) {
            return state;
        }
        if let Some(known) = self.pins.get(&(state, key, domain)) {
            return *known;
        }
        let table = &world.keys.tables[key as usize];
        let have = self.get(state);
        let (template, mut requirements) = (have.template, have.requirements.clone());
        requirements.add(
            Requirement::is(table.key, table.values[domain as usize]),
            world.interner(),
        );
        let pinned = self.intern(world, template, requirements);
        self.pins.insert((state, key, domain), pinned);
        pinned
    }

    /// Leaves a key out: the machine will not have it.
    pub(crate) fn without(&mut self, world: &World<'_>, state: StateId, key: u32) -> StateId {
        let have = self.get(state);
        let (template, mut requirements) = (have.template, have.requirements.clone());
        let key = world.keys.tables[key as usize].key;
        requirements.add(Requirement::does_not_exist(key), world.interner());
        self.intern(world, template, requirements)
    }

    fn make(&self, world: &World<'_>, template: usize, requirements: Requirements) -> State {
        let catalogue = world.templates[template].catalogue;
        let types = &world.catalogues[catalogue];
        let mut rows = world.templates[template].rows.clone();
        let mut offers = Bits::full(types.offers.len());
        for requirement in &requirements {
            let met = world.prepared.met(catalogue, requirement.clone().with_min_values(None));
            rows.and(&met.rows);
            offers.and(&met.offers);
        }
        for (offer, key) in &world.demands[catalogue] {
            if requirements.get(*key).is_none() {
                offers.remove(*offer);
            }
        }
        let mut offered = Bits::default();
        let mut reserved = Vec::new();
        for at in offers.iter() {
            let offer = &types.offers[at];
            if rows.get(offer.row) {
                offered.insert(offer.row);
                reserved.extend(offer.reservation.map(|id| (offer.row as u32, id)));
            }
        }
        rows.and(&offered);
        let domains = (0..world.keys.tables.len())
            .map(|key| domains(world, &requirements, key, (catalogue, &rows)))
            .collect();
        State {
            template,
            requirements,
            rows,
            offers,
            domains,
            reserved,
            prices: None,
            capacity_types: None,
        }
    }

    /// The rows of a state with an offering that draws on no reservation.
    pub(crate) fn unreserved(&self, world: &World<'_>, id: StateId) -> Bits {
        let state = self.get(id);
        let types = world.types(state.template);
        let offers = state.offers.iter().map(|at| &types.offers[at]);
        let plain = offers.filter(|offer| offer.reservation.is_none());
        plain
            .map(|offer| offer.row)
            .filter(|row| state.rows.get(*row))
            .collect()
    }

    /// The cheapest way to launch a claim in this state with these rows: price, row, offer (SCH-132; ties by type name, then offering).
    pub(crate) fn cheapest(&mut self, world: &World<'_>, id: StateId, rows: &Bits) -> Option<(Price, u32, u32)> {
        self.prices(world, id)
            .iter()
            .find(|(_, row, _)| rows.get(*row as usize))
            .copied()
    }

    /// The capacity types some of these rows can be had with, by id.
    pub(crate) fn capacity_types(&mut self, world: &World<'_>, id: StateId, rows: &Bits) -> Vec<Sym> {
        let state = &mut self.list[id as usize];
        let types = world.types(state.template);
        let all = state.capacity_types.get_or_insert_with(|| {
            let mut all: Vec<(Sym, Bits)> = Vec::new();
            for offer in state.offers.iter().map(|at| &types.offers[at]) {
                let Some(capacity_type) = offer.capacity_type else {
                    continue;
                };
                match all.iter_mut().find(|entry| entry.0 == capacity_type) {
                    Some((_, rows)) => rows.insert(offer.row),
                    None => all.push((capacity_type, std::iter::once(offer.row).collect())),
                }
            }
            all.sort_unstable_by_key(|entry| entry.0);
            all
        });
        let some = all.iter().filter(|(_, with)| with.intersects(rows));
        some.map(|entry| entry.0).collect()
    }

    /// All rows of a state by price.
    pub(crate) fn prices(&mut self, world: &World<'_>, id: StateId) -> &Prices {
        let state = &mut self.list[id as usize];
        let catalogue = world.templates[state.template].catalogue;
        state
            .prices
            .get_or_insert_with(|| world.prepared.prices(catalogue, &state.offers))
    }
}

fn domains(world: &World<'_>, requirements: &Requirements, key: usize, (catalogue, rows): (usize, &Bits)) -> Domains {
    let table = &world.keys.tables[key];
    match requirements.get(table.key) {
        // Only what some type has.
        None if world.is_known(table.key) => Domains {
            defined: true,
            bits: (0..table.values.len())
                .filter(|at| {
                    let is = Requirement::is(table.key, table.values[*at]);
                    world.prepared.met(catalogue, is).rows.intersects(rows)
                })
                .collect(),
            one: None,
        },
        None => Domains::default(),
        Some(requirement) if requirement.is_does_not_exist() => Domains::default(),
        Some(requirement) => Domains {
            defined: true,
            bits: (0..table.values.len())
                .filter(|at| requirement.has(table.values[*at], world.interner()))
                .collect(),
            one: requirement.single().and_then(|value| table.number(value)),
        },
    }
}
