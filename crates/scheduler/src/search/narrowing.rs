//! What a claim becomes when it accepts a pod: it chooses volume alternatives, domains and node filter terms, then checks `minValues` and
//! reservations.

use crate::compile::catalogue::TypeRow;
use crate::compile::templates::unmet;
use crate::compile::topology::{DomainId, GroupId, NodeFilterId, TopologyKey};
use crate::dense::id_set::IdSet;
use crate::options::ReservedMode;
use crate::search::assignment::Assignment;
use crate::search::query::{Narrowed, Query, Rejection};
use crate::search::reservations::HeldReservations;
use crate::search::specs::SpecId;
use kerf_model::intern::Sym;
use kerf_model::price::Price;
use kerf_units::policy::MinValuesPolicy;
use smallvec::SmallVec;

/// The largest number of combinations of volume alternatives tried on one claim. Real pods have a few; the bound protects against hostile
/// input.
const VOLUME_COMBINATIONS_MAX: u32 = 4096;

/// A claim with the pod's requirements and requests added, before volumes and topology narrow it.
pub(super) struct NarrowInput<'x> {
    pub(super) spec: SpecId,
    pub(super) rows: &'x IdSet<TypeRow>,
    pub(super) held_reservations: &'x HeldReservations,
    pub(super) fresh: bool,
}

impl Assignment<'_, '_> {
    /// Narrows a claim by volumes and topology, then by `minValues` and reservations.
    pub(super) fn narrow(&mut self, query: &Query<'_>, base: &NarrowInput<'_>) -> Result<Narrowed, Rejection> {
        let mut tries = VOLUME_COMBINATIONS_MAX;
        self.choose_volume_term(query, base, base.spec, 0, &mut tries)
    }

    /// Chooses an alternative for each list of volumes from `at` on, in their order. The first combination that passes all later steps wins
    /// (SCH-182).
    fn choose_volume_term(
        &mut self,
        query: &Query<'_>,
        base: &NarrowInput<'_>,
        spec: SpecId,
        at: usize,
        tries: &mut u32,
    ) -> Result<Narrowed, Rejection> {
        let Some(alternatives) = query.class.volume_topology.alternatives.get(at) else {
            *tries = tries.saturating_sub(1);
            return self.choose_domain(query, base, spec, 0);
        };
        let mut last = Rejection::Permanent;
        for choice in alternatives {
            let Some(spec) = self.specs.with_requirements(self.problem, spec, *choice) else {
                continue;
            };
            match self.choose_volume_term(query, base, spec, at + 1, tries) {
                Ok(narrowed) => return Ok(narrowed),
                Err(Rejection::Permanent) => {}
                Err(rejection) => last = rejection,
            }
            if *tries == 0 {
                return Err(last);
            }
        }
        Err(last)
    }

    /// Chooses a domain for each rule from `at` on, best domain first. The first choice that passes all later steps wins.
    fn choose_domain(
        &mut self,
        query: &Query<'_>,
        base: &NarrowInput<'_>,
        spec: SpecId,
        at: usize,
    ) -> Result<Narrowed, Rejection> {
        let Some(rule) = query.allowed.rules.get(at) else {
            return self.choose_filter_term(query, base, spec, 0);
        };
        let domains = self.specs.get(spec).domains(rule.key);
        if domains.no_domain() {
            return if rule.needs_key {
                Err(Rejection::Temporary)
            } else {
                self.choose_domain(query, base, spec, at + 1)
            };
        }
        if let Some(one) = domains.one {
            return if rule.valid.get(one) {
                self.choose_domain(query, base, spec, at + 1)
            } else {
                Err(Rejection::Temporary)
            };
        }
        let mut candidates = domains.possible.clone();
        candidates.and(&rule.valid);
        let mut order: SmallVec<[(u32, Price, u32, DomainId); 8]> = SmallVec::new();
        for domain in candidates.iter() {
            let chosen = self.specs.with_domain(self.problem, spec, rule.key, domain);
            let mut rows = base.rows.clone();
            rows.and(&self.specs.get(chosen).rows);
            let Some((price, _, _)) = self.specs.cheapest(self.problem, chosen, &rows) else {
                continue;
            };
            let count = |group: Option<GroupId>| group.map_or(0, |group| self.counts.get(group).by_domain[domain]);
            let price = if self.by_price { price } else { Price::ZERO };
            order.push((count(rule.spread), price, count(rule.tie_break), domain));
        }
        if order.is_empty() && !rule.needs_key {
            return self.skip_domain(query, base, spec, at);
        }
        order.sort_unstable();
        let mut last = Rejection::Temporary;
        for (_, _, _, domain) in order {
            let chosen = self.specs.with_domain(self.problem, spec, rule.key, domain);
            match self.choose_domain(query, base, chosen, at + 1) {
                Ok(narrowed) => return Ok(narrowed),
                Err(Rejection::Reserved(conflict)) => last = Rejection::Reserved(conflict),
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Leaves out a key that only counts the pod and that no remaining row has.
    fn skip_domain(
        &mut self,
        query: &Query<'_>,
        base: &NarrowInput<'_>,
        spec: SpecId,
        at: usize,
    ) -> Result<Narrowed, Rejection> {
        let key = query.allowed.rules[at].key;
        let open = self.specs.get(spec).domains(key).possible.clone();
        for domain in open.iter() {
            let chosen = self.specs.with_domain(self.problem, spec, key, domain);
            if base.rows.intersects(&self.specs.get(chosen).rows) {
                return Err(Rejection::Temporary);
            }
        }
        let without = self.specs.without_key(self.problem, spec, key);
        self.choose_domain(query, base, without, at + 1)
    }

    /// Chooses a term for each node filter that counts the pod, from `at` on, so that the claim certainly passes or certainly fails it.
    fn choose_filter_term(
        &mut self,
        query: &Query<'_>,
        base: &NarrowInput<'_>,
        spec: SpecId,
        at: usize,
    ) -> Result<Narrowed, Rejection> {
        let Some(filter) = query.class.filters.get(at) else {
            return self.finish(base, spec);
        };
        let problem = self.problem;
        if self.claim_passes(Some(*filter), spec) {
            return self.choose_filter_term(query, base, spec, at + 1);
        }
        let mut last = None;
        for set in &problem.groups.filters[*filter].any_of {
            let Some(joined) = self.specs.with_requirements(problem, spec, *set) else {
                continue;
            };
            if !base.rows.intersects(&self.specs.get(joined).rows) {
                continue;
            }
            match self.choose_filter_term(query, base, joined, at + 1) {
                Ok(narrowed) => return Ok(narrowed),
                Err(rejection) => last = Some(rejection),
            }
        }
        last.map_or_else(|| self.choose_filter_term(query, base, spec, at + 1), Err)
    }

    /// Returns whether a spread constraint counts a claim, whatever the claim becomes (SCH-205).
    pub(super) fn claim_passes(&mut self, filter: Option<NodeFilterId>, spec: SpecId) -> bool {
        let problem = self.problem;
        let Some(filter) = filter.map(|filter| &problem.groups.filters[filter]) else {
            return true;
        };
        let mut sets = filter.any_of.iter();
        if !filter.any_of.is_empty() && !sets.any(|set| self.specs.with_requirements(problem, spec, *set) == Some(spec))
        {
            return false;
        }
        let spec = self.specs.get(spec);
        let has = |key: &TopologyKey| {
            let domains = key.table().map(|key| spec.domains(key));
            domains.is_none_or(|domains| !domains.no_domain())
        };
        let taints = &problem.templates[spec.template].pool.taints;
        filter.keys.iter().all(has)
            && filter
                .tolerations
                .as_ref()
                .is_none_or(|tolerations| kerf_model::taint::first_untolerated(taints, tolerations).is_none())
    }

    /// Checks the rows that are left, `minValues` and reservations.
    fn finish(&mut self, base: &NarrowInput<'_>, spec: SpecId) -> Result<Narrowed, Rejection> {
        let mut spec = spec;
        let mut rows = base.rows.clone();
        rows.and(&self.specs.get(spec).rows);
        if rows.is_empty() {
            return Err(Rejection::Temporary);
        }
        let mut min_values_lowered = self.meet_min_values(base, &mut spec, &rows)?;
        let hold = self
            .reservations
            .holdable(self.problem, self.specs.get(spec), &rows, base.held_reservations);
        let held_reservations = hold.map_err(Rejection::Reserved)?;
        if held_reservations.is_empty()
            && !self.specs.get(spec).reserved.is_empty()
            && self.problem.options.reserved != ReservedMode::Off
        {
            // Without reservations, a row must have another offering (SCH-296).
            rows.and(&self.specs.unreserved(self.problem, spec));
            if rows.is_empty() {
                return Err(Rejection::Temporary);
            }
            min_values_lowered |= self.meet_min_values(base, &mut spec, &rows)?;
        }
        Ok(Narrowed {
            spec,
            rows,
            held_reservations,
            min_values_lowered,
        })
    }

    /// Checks `minValues` for these rows and lowers it if the policy allows that. Returns whether it was lowered.
    fn meet_min_values(
        &mut self,
        base: &NarrowInput<'_>,
        spec: &mut SpecId,
        rows: &IdSet<TypeRow>,
    ) -> Result<bool, Rejection> {
        let have = self.specs.get(*spec);
        if !have.requirements.has_min_values() {
            return Ok(false);
        }
        let types = self.problem.types(have.template);
        let unmet = unmet(types, &have.requirements, rows);
        if unmet.is_empty() {
            return Ok(false);
        }
        if !base.fresh || self.problem.options.min_values_policy == MinValuesPolicy::Strict {
            return Err(Rejection::Temporary);
        }
        *spec = self.lower(*spec, &unmet);
        Ok(true)
    }

    /// The spec with `minValues` lowered to the number of values there are (SCH-282).
    fn lower(&mut self, spec: SpecId, unmet: &[(Sym, u32)]) -> SpecId {
        let have = self.specs.get(spec);
        let (template, mut requirements) = (have.template, have.requirements.clone());
        for (key, values) in unmet {
            if let Some(requirement) = requirements.get(*key) {
                requirements.replace(requirement.clone().with_min_values(Some(*values)));
            }
        }
        self.specs.intern(self.problem, template, requirements)
    }

    /// Restricts a new claim to some of its rows. Returns `None` where `minValues` or reservations need more rows.
    pub(crate) fn restrict(&self, narrowed: &Narrowed, rows: IdSet<TypeRow>) -> Option<Narrowed> {
        let problem = self.problem;
        let spec = self.specs.get(narrowed.spec);
        let types = problem.types(spec.template);
        let enough = !rows.is_empty() && unmet(types, &spec.requirements, &rows).is_empty();
        let held_reservations = self
            .reservations
            .holdable(problem, spec, &rows, &HeldReservations::new());
        let held_reservations = held_reservations.ok().filter(|held_reservations| {
            enough && held_reservations.is_empty() == narrowed.held_reservations.is_empty()
        })?;
        Some(Narrowed {
            spec: narrowed.spec,
            rows,
            held_reservations,
            min_values_lowered: narrowed.min_values_lowered,
        })
    }
}
