//! Claim specs: the requirements of a template after pods, volumes and topology were merged. Equal specs share one id and merges are
//! cached, so that the cost depends on the number of *distinct* merges.

use crate::compile::catalogue::{CatalogueId, Offer, OfferId, OffersByPrice, RowId, TypeRow};
use crate::compile::problem::Problem;
use crate::compile::requirements::{ReqId, ReqSet};
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimDomains, DomainId, KeyId};
use crate::dense::id_set::IdSet;
use crate::dense::ids::{Id, IdVec};
use kerf_model::intern::Sym;
use kerf_model::price::Price;
use kerf_model::requirement::{Requirement, Requirements};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// The id of a claim spec.
pub(crate) type SpecId = Id<ClaimSpec>;

/// A template with merged requirements, and what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct ClaimSpec {
    pub(crate) template: TemplateId,
    pub(crate) requirements: Requirements,
    /// The rows that meet the requirements and have a compatible available offering.
    pub(crate) rows: IdSet<TypeRow>,
    /// Those offerings.
    pub(crate) offers: IdSet<Offer>,
    /// By topology key: the domains a claim may still be in.
    domains: SmallVec<[ClaimDomains; 2]>,
    /// The rows with compatible available reserved offerings, and the ids of the reservations.
    pub(crate) reserved: Vec<(RowId, Sym)>,
    offers_by_price: Option<Arc<OffersByPrice>>,
    /// Per capacity type, by id: the rows with a compatible available offering.
    capacity_types: Option<Vec<(Sym, IdSet<TypeRow>)>>,
}

impl ClaimSpec {
    /// The domains of a topology key that a claim may still be in.
    pub(crate) fn domains(&self, key: KeyId) -> &ClaimDomains {
        &self.domains[key.index()]
    }
}

/// All interned specs and the cached merges.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClaimSpecs {
    pub(crate) list: IdVec<ClaimSpec, ClaimSpec>,
    ids: FxHashMap<(TemplateId, Requirements), SpecId>,
    merges: FxHashMap<(SpecId, ReqId), Option<SpecId>>,
    domain_choices: FxHashMap<(SpecId, KeyId, DomainId), SpecId>,
}

impl ClaimSpecs {
    pub(crate) fn get(&self, id: SpecId) -> &ClaimSpec {
        &self.list[id]
    }

    /// Interns the spec with these requirements.
    pub(crate) fn intern(&mut self, problem: &Problem<'_>, template: TemplateId, requirements: Requirements) -> SpecId {
        let found = self.ids.get(&(template, requirements.clone())).copied();
        found.unwrap_or_else(|| {
            let spec = self.make(problem, template, requirements);
            let id = self.list.next_id();
            self.ids.insert((template, spec.requirements.clone()), id);
            self.list.push(spec);
            id
        })
    }

    /// Merges a requirement set. Returns `None` where it is incompatible (SCH-101) or leaves no offering of any row.
    pub(crate) fn with_requirements(&mut self, problem: &Problem<'_>, spec: SpecId, wanted: ReqId) -> Option<SpecId> {
        if let Some(cached) = self.merges.get(&(spec, wanted)) {
            return *cached;
        }
        let joined = self.merge(problem, spec, problem.req_sets.get(wanted));
        self.merges.insert((spec, wanted), joined);
        joined
    }

    /// [`Self::with_requirements`] without the cache.
    fn merge(&mut self, problem: &Problem<'_>, spec: SpecId, wanted: &ReqSet) -> Option<SpecId> {
        if wanted.contradiction.is_some() || !wanted.allows_new_host() {
            return None;
        }
        if wanted.labels.is_empty() {
            return Some(spec);
        }
        let have = self.get(spec);
        have.requirements
            .compatible(&wanted.labels, |key| problem.may_be_undefined(key), problem.interner())
            .ok()?;
        let mut merged = have.requirements.clone();
        for want in &wanted.labels {
            // A requirement that admits absence must not give the claim a label it would not have (SCH-253).
            if merged.get(want.key).is_some() || problem.may_be_undefined(want.key) {
                merged.add(want.clone(), problem.interner());
            }
        }
        let template = have.template;
        let id = self.intern(problem, template, merged);
        (!self.get(id).rows.is_empty()).then_some(id)
    }

    /// Restricts a topology key to one domain.
    pub(crate) fn with_domain(&mut self, problem: &Problem<'_>, spec: SpecId, key: KeyId, domain: DomainId) -> SpecId {
        if self.get(spec).domains(key).one == Some(domain) {
            return spec;
        }
        if let Some(cached) = self.domain_choices.get(&(spec, key, domain)) {
            return *cached;
        }
        let table = &problem.keys.tables[key];
        let have = self.get(spec);
        let (template, mut requirements) = (have.template, have.requirements.clone());
        requirements.add(Requirement::is(table.key, table.values[domain]), problem.interner());
        let chosen = self.intern(problem, template, requirements);
        self.domain_choices.insert((spec, key, domain), chosen);
        chosen
    }

    /// Requires that a node does not have a topology key.
    pub(crate) fn without_key(&mut self, problem: &Problem<'_>, spec: SpecId, key: KeyId) -> SpecId {
        let have = self.get(spec);
        let (template, mut requirements) = (have.template, have.requirements.clone());
        let key = problem.keys.tables[key].key;
        requirements.add(Requirement::does_not_exist(key), problem.interner());
        self.intern(problem, template, requirements)
    }

    /// Computes a spec from its requirements.
    fn make(&self, problem: &Problem<'_>, template: TemplateId, requirements: Requirements) -> ClaimSpec {
        let catalogue = problem.templates[template].catalogue;
        let types = &problem.catalogues[catalogue];
        let mut rows = problem.templates[template].rows.clone();
        let mut offers: IdSet<Offer> = IdSet::full(types.offers.len());
        for requirement in &requirements {
            let matching = problem
                .prepared
                .matching(catalogue, requirement.clone().with_min_values(None));
            rows.and(&matching.rows);
            offers.and(&matching.offers);
        }
        for (offer, key) in &problem.required_keys[catalogue] {
            if requirements.get(*key).is_none() {
                offers.remove(*offer);
            }
        }
        let mut offered = IdSet::default();
        let mut reserved = Vec::new();
        for at in offers.iter() {
            let offer = &types.offers[at];
            if rows.get(offer.row) {
                offered.insert(offer.row);
                reserved.extend(offer.reservation.map(|id| (offer.row, id)));
            }
        }
        rows.and(&offered);
        let domains = problem
            .keys
            .tables
            .ids()
            .map(|key| domains(problem, &requirements, key, (catalogue, &rows)))
            .collect();
        ClaimSpec {
            template,
            requirements,
            rows,
            offers,
            domains,
            reserved,
            offers_by_price: None,
            capacity_types: None,
        }
    }

    /// The rows of a spec with an offering that uses no reservation.
    pub(crate) fn unreserved(&self, problem: &Problem<'_>, id: SpecId) -> IdSet<TypeRow> {
        let spec = self.get(id);
        let types = problem.types(spec.template);
        let offers = spec.offers.iter().map(|at| &types.offers[at]);
        let plain = offers.filter(|offer| offer.reservation.is_none());
        plain.map(|offer| offer.row).filter(|row| spec.rows.get(*row)).collect()
    }

    /// The cheapest offer of a spec among these rows: price, row, offer (SCH-132; ties by type name, then offering).
    pub(crate) fn cheapest(
        &mut self,
        problem: &Problem<'_>,
        id: SpecId,
        rows: &IdSet<TypeRow>,
    ) -> Option<(Price, RowId, OfferId)> {
        self.offers_by_price(problem, id)
            .iter()
            .find(|(_, row, _)| rows.get(*row))
            .copied()
    }

    /// The capacity types with which at least one of these rows is offered, by id.
    pub(crate) fn capacity_types(&mut self, problem: &Problem<'_>, id: SpecId, rows: &IdSet<TypeRow>) -> Vec<Sym> {
        let spec = &mut self.list[id];
        let types = problem.types(spec.template);
        let all = spec.capacity_types.get_or_insert_with(|| {
            let mut all: Vec<(Sym, IdSet<TypeRow>)> = Vec::new();
            for offer in spec.offers.iter().map(|at| &types.offers[at]) {
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

    /// All rows of a spec by price.
    pub(crate) fn offers_by_price(&mut self, problem: &Problem<'_>, id: SpecId) -> &OffersByPrice {
        let spec = &mut self.list[id];
        let catalogue = problem.templates[spec.template].catalogue;
        spec.offers_by_price
            .get_or_insert_with(|| problem.prepared.offers_by_price(catalogue, &spec.offers))
    }
}

/// The domains of a key that a claim with these requirements and rows may be in.
fn domains(
    problem: &Problem<'_>,
    requirements: &Requirements,
    key: KeyId,
    (catalogue, rows): (CatalogueId, &IdSet<TypeRow>),
) -> ClaimDomains {
    let table = &problem.keys.tables[key];
    match requirements.get(table.key) {
        // Only domains that a remaining row can have.
        None if problem.may_be_undefined(table.key) => ClaimDomains {
            defined: true,
            possible: table
                .values
                .ids()
                .filter(|domain| {
                    let is = Requirement::is(table.key, table.values[*domain]);
                    problem.prepared.matching(catalogue, is).rows.intersects(rows)
                })
                .collect(),
            one: None,
        },
        None => ClaimDomains::default(),
        Some(requirement) if requirement.is_does_not_exist() => ClaimDomains::default(),
        Some(requirement) => ClaimDomains {
            defined: true,
            possible: table
                .values
                .ids()
                .filter(|domain| requirement.has(table.values[*domain], problem.interner()))
                .collect(),
            one: requirement.single().and_then(|value| table.domain(value)),
        },
    }
}
