//! What a machine narrows to that takes a pod: an alternative of its volumes, a domain of each key, node filters, `minValues`, reservations.

use crate::bits::Bits;
use crate::options::{MinValuesPolicy, ReservedMode};
use crate::reservations::Held;
use crate::run::{Ask, Fit, No, Run};
use crate::states::StateId;
use crate::templates::unmet;
use crate::topology::TopologyKey;
use kerf_model::intern::Sym;
use kerf_model::price::Price;
use kerf_model::requirement::Requirements;
use smallvec::SmallVec;

/// How many combinations of volume alternatives are tried on one machine.
const VOLUME_TRIES_MAX: u32 = 4096;

/// A machine with the pod on it, before volumes and topology narrow it.
pub(super) struct Base<'x> {
    pub(super) state: StateId,
    pub(super) rows: &'x Bits,
    pub(super) held: &'x Held,
    pub(super) fresh: bool,
}

impl Run<'_, '_> {
    /// Volumes and topology, then `minValues` and reservations.
    pub(super) fn narrow(&mut self, ask: &Ask<'_>, base: &Base<'_>) -> Result<Fit, No> {
        let mut tries = VOLUME_TRIES_MAX;
        self.choose(ask, base, base.state, 0, &mut tries)
    }

    /// Settles on an alternative of the volumes from `at` on, in their order; the first combination that passes everything wins (SCH-182).
    fn choose(
        &mut self,
        ask: &Ask<'_>,
        base: &Base<'_>,
        state: StateId,
        at: usize,
        tries: &mut u32,
    ) -> Result<Fit, No> {
        let Some(choices) = ask.class.reach.choices.get(at) else {
            *tries = tries.saturating_sub(1);
            return self.settle(ask, base, state, 0);
        };
        let mut last = No::Ever;
        for choice in choices {
            let Some(state) = self.states.join(self.world, state, *choice) else {
                continue;
            };
            match self.choose(ask, base, state, at + 1, tries) {
                Ok(fit) => return Ok(fit),
                Err(No::Ever) => {}
                Err(no) => last = no,
            }
            if *tries == 0 {
                return Err(last);
            }
        }
        Err(last)
    }

    /// Settles the keys of the rules from `at` on, the best domain first; the first that leaves a type wins.
    fn settle(&mut self, ask: &Ask<'_>, base: &Base<'_>, state: StateId, at: usize) -> Result<Fit, No> {
        let Some(rule) = ask.allowed.rules.get(at) else {
            return self.decide(ask, base, state, 0);
        };
        let domains = &self.states.get(state).domains[rule.key as usize];
        if domains.nowhere() {
            return if rule.needs_key {
                Err(No::Now)
            } else {
                self.settle(ask, base, state, at + 1)
            };
        }
        if let Some(one) = domains.one {
            return if rule.valid.get(one as usize) {
                self.settle(ask, base, state, at + 1)
            } else {
                Err(No::Now)
            };
        }
        let mut candidates = domains.bits.clone();
        candidates.and(&rule.valid);
        let mut order: SmallVec<[(u32, Price, u32, u32); 8]> = SmallVec::new();
        for domain in candidates.iter() {
            let pinned = self.states.pin(self.world, state, rule.key, domain as u32);
            let mut rows = base.rows.clone();
            rows.and(&self.states.get(pinned).rows);
            let Some((price, _, _)) = self.states.cheapest(self.world, pinned, &rows) else {
                continue;
            };
            let count = |group: Option<u32>| group.map_or(0, |group| self.counts.get(group).by_domain[domain]);
            let price = if self.by_price { price } else { Price::ZERO };
            order.push((count(rule.balance), price, count(rule.level), domain as u32));
        }
        if order.is_empty() && !rule.needs_key {
            return self.settle_on_none(ask, base, state, at);
        }
        order.sort_unstable();
        let mut last = No::Now;
        for (_, _, _, domain) in order {
            let pinned = self.states.pin(self.world, state, rule.key, domain);
            match self.settle(ask, base, pinned, at + 1) {
                Ok(fit) => return Ok(fit),
                Err(No::Reserved(conflict)) => last = No::Reserved(conflict),
                Err(_) => {}
            }
        }
        Err(last)
    }

    /// Where no type left has a key that only counts the pod, the machine will do without it.
    fn settle_on_none(&mut self, ask: &Ask<'_>, base: &Base<'_>, state: StateId, at: usize) -> Result<Fit, No> {
        let key = ask.allowed.rules[at].key;
        let open = self.states.get(state).domains[key as usize].bits.clone();
        for domain in open.iter() {
            let pinned = self.states.pin(self.world, state, key, domain as u32);
            if base.rows.intersects(&self.states.get(pinned).rows) {
                return Err(No::Now);
            }
        }
        let without = self.states.without(self.world, state, key);
        self.settle(ask, base, without, at + 1)
    }

    /// Decides the node filters that count the pod, from `at` on: the claim is narrowed until it surely passes, or surely does not.
    fn decide(&mut self, ask: &Ask<'_>, base: &Base<'_>, state: StateId, at: usize) -> Result<Fit, No> {
        let Some(filter) = ask.class.filters.get(at) else {
            return self.finish(base, state);
        };
        let world = self.world;
        if self.claim_passes(Some(*filter), state) {
            return self.decide(ask, base, state, at + 1);
        }
        let mut last = None;
        for set in &world.groups.filters[*filter as usize].any_of {
            let Some(joined) = self.states.join(world, state, *set) else {
                continue;
            };
            if !base.rows.intersects(&self.states.get(joined).rows) {
                continue;
            }
            match self.decide(ask, base, joined, at + 1) {
                Ok(fit) => return Ok(fit),
                Err(no) => last = Some(no),
            }
        }
        last.map_or_else(|| self.decide(ask, base, state, at + 1), Err)
    }

    /// Whether a spread constraint looks at a claim: surely, whatever becomes of it (SCH-205).
    pub(super) fn claim_passes(&mut self, filter: Option<u32>, state: StateId) -> bool {
        let world = self.world;
        let Some(filter) = filter.map(|filter| &world.groups.filters[filter as usize]) else {
            return true;
        };
        let mut sets = filter.any_of.iter();
        if !filter.any_of.is_empty() && !sets.any(|set| self.states.join(world, state, *set) == Some(state)) {
            return false;
        }
        let state = self.states.get(state);
        let has = |key: &TopologyKey| {
            let domains = key.table().map(|key| &state.domains[key as usize]);
            domains.is_none_or(|domains| !domains.nowhere())
        };
        let taints = &world.templates[state.template].pool.taints;
        filter.keys.iter().all(has)
            && filter
                .tolerations
                .as_ref()
                .is_none_or(|tolerations| kerf_model::taint::first_untolerated(taints, tolerations).is_none())
    }

    fn finish(&mut self, base: &Base<'_>, state: StateId) -> Result<Fit, No> {
        let mut state = state;
        let mut rows = base.rows.clone();
        rows.and(&self.states.get(state).rows);
        if rows.is_empty() {
            return Err(No::Now);
        }
        let mut relaxed = self.meet_min_values(base, &mut state, &rows)?;
        let hold = self
            .reservations
            .would_hold(self.world, self.states.get(state), &rows, base.held);
        let held = hold.map_err(No::Reserved)?;
        if held.is_empty()
            && !self.states.get(state).reserved.is_empty()
            && self.world.options.reserved != ReservedMode::Off
        {
            // SCH-296: it goes without reservations, so a type must have something else to offer.
            rows.and(&self.states.unreserved(self.world, state));
            if rows.is_empty() {
                return Err(No::Now);
            }
            relaxed |= self.meet_min_values(base, &mut state, &rows)?;
        }
        Ok(Fit {
            state,
            rows,
            held,
            relaxed,
        })
    }

    /// Sees to it that these rows meet `minValues`, which are lowered if that is allowed; whether they were.
    fn meet_min_values(&mut self, base: &Base<'_>, state: &mut StateId, rows: &Bits) -> Result<bool, No> {
        let have = self.states.get(*state);
        if !have.requirements.has_min_values() {
            return Ok(false);
        }
        let types = self.world.types(have.template);
        let unmet = unmet(types, &have.requirements, rows);
        if unmet.is_empty() {
            return Ok(false);
        }
        if !base.fresh || self.world.options.min_values_policy == MinValuesPolicy::Strict {
            return Err(No::Now);
        }
        *state = self.lower(*state, &unmet);
        Ok(true)
    }

    /// SCH-282: the state with `minValues` lowered to what there is.
    fn lower(&mut self, state: StateId, unmet: &[(Sym, u32)]) -> StateId {
        let have = self.states.get(state);
        let (template, mut requirements): (usize, Requirements) = (have.template, have.requirements.clone());
        for (key, values) in unmet {
            if let Some(requirement) = requirements.get(*key) {
                requirements.replace(requirement.clone().with_min_values(Some(*values)));
            }
        }
        self.states.intern(self.world, template, requirements)
    }

    /// A fit of a new claim with some of its rows only; nothing where `minValues` or reservations need more of them.
    pub(crate) fn narrowed(&self, fit: &Fit, rows: Bits) -> Option<Fit> {
        let world = self.world;
        let state = self.states.get(fit.state);
        let types = world.types(state.template);
        let enough = !rows.is_empty() && unmet(types, &state.requirements, &rows).is_empty();
        let held = self.reservations.would_hold(world, state, &rows, &Held::new());
        let held = held
            .ok()
            .filter(|held| enough && held.is_empty() == fit.held.is_empty())?;
        Some(Fit {
            state: fit.state,
            rows,
            held,
            relaxed: fit.relaxed,
        })
    }
}
