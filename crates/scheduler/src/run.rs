//! One run over a world: the feasibility core. It answers "does this class fit this machine, given everything placed so far, and what
//! would that narrow to", and books placements. Strategies decide what to ask and what to book.

use crate::amounts::{Amounts, add, fits};
use crate::bits::{Bits, ones};
use crate::claims::{ByPods, Claim, Cursor};
use crate::classes::{Class, ClassId, Variant};
use crate::launches::offered;
use crate::limits::{Limits, Within};
use crate::nodes::BLOCK;
use crate::options::{MinValuesPolicy, ReservedMode};
use crate::requirements::ReqId;
use crate::reservations::{Held, Reservations, ReservedConflict};
use crate::states::{Domains, StateId, States};
use crate::templates::unmet;
use crate::topology::{Allowed, Counts, Place, TopologyKey};
use crate::touched::Touched;
use crate::world::World;
use kerf_model::pod::HostPort;
use kerf_model::price::Price;
use kerf_model::requirement::Requirements;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// What changes while pods are placed.
#[derive(Clone, Debug)]
pub(crate) struct Run<'w, 'a> {
    pub(crate) world: &'w World<'a>,
    pub(crate) states: States,
    pub(crate) claims: Vec<Claim>,
    by_pods: ByPods,
    /// The least of each resource any class asks for.
    least: Amounts,
    /// Targets pods were placed on.
    pub(crate) touched: Touched,
    pub(crate) counts: Counts,
    pub(crate) limits: Limits,
    reservations: Reservations,
    /// Per topology key and domain: the claims that may land there.
    claims_in: Vec<Vec<Bits>>,
    /// Per topology key: claims whose node will not carry it.
    claims_without: Vec<Bits>,
    /// Per reading: machines that refused it for good.
    dead: Vec<Dead>,
    first_reading: Vec<usize>,
    /// Whether equally good domains are chosen by price.
    pub(crate) by_price: bool,
    /// Attempts made, the measure of effort.
    pub(crate) work: u64,
    /// How many pods were placed.
    pub(crate) placed: u64,
    /// The pods placed, in the order they were.
    pub(crate) order: Vec<u32>,
}

#[derive(Clone, Debug, Default)]
struct Dead {
    targets: Bits,
    claims: Bits,
    templates: Bits,
}

/// What a claim becomes if it takes a pod.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    pub(crate) state: StateId,
    pub(crate) rows: Bits,
    held: Held,
    relaxed: bool,
}

/// Why a claim or template does not take a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum No {
    /// It never will in this run.
    Ever,
    /// Not now.
    Now,
    /// Only reservations stand in the way.
    Reserved(ReservedConflict),
}

/// Why an existing node does not take a pod.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TargetNo {
    /// It takes no pod at all.
    Closed,
    /// It takes no pod that moves from a healthy node.
    Settling,
    Taint,
    /// Attach limits.
    Volumes,
    Ports,
    Resources,
    Labels,
    /// Volumes cannot be reached from there.
    Reach,
    Topology,
}

/// A class under one reading, with what topology allows it now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'x> {
    pub(crate) class: &'x Class,
    pub(crate) variant: &'x Variant,
    pub(crate) allowed: &'x Allowed,
    /// Number of the reading among all.
    pub(crate) reading: usize,
}

/// How many combinations of volume alternatives are tried on one machine.
const VOLUME_TRIES_MAX: u32 = 4096;

struct Base<'x> {
    state: StateId,
    rows: &'x Bits,
    held: &'x Held,
    anchor: Option<u32>,
    fresh: bool,
}

impl<'w, 'a> Run<'w, 'a> {
    pub(crate) fn new(world: &'w World<'a>) -> Self {
        let mut readings = 0;
        let first_reading = world.classes.iter().map(|class| {
            readings += class.variants.len();
            readings - class.variants.len()
        });
        let first_reading = first_reading.collect();
        let tables = &world.keys.tables;
        Self {
            world,
            states: world.states.clone(),
            claims: Vec::new(),
            by_pods: ByPods::default(),
            least: least(world),
            touched: Touched::new(world.targets.len()),
            counts: world.counts.clone(),
            limits: world.limits.clone(),
            reservations: Reservations::new(world),
            claims_in: tables
                .iter()
                .map(|table| vec![Bits::default(); table.values.len()])
                .collect(),
            claims_without: vec![Bits::default(); tables.len()],
            dead: vec![Dead::default(); readings],
            first_reading,
            by_price: false,
            work: 0,
            placed: 0,
            order: Vec::new(),
        }
    }

    /// The number of a reading of a class.
    pub(crate) fn reading(&self, class: ClassId, level: usize) -> usize {
        self.first_reading[class as usize] + level
    }

    // ---- existing nodes (16.3) ----

    /// Of the targets `64 * word ..`: those that may take the pod as far as labels, domains and neighbours go.
    fn target_word(&self, ask: &Ask<'_>, word: usize) -> u64 {
        let world = self.world;
        let mut targets = world.open.word(word) & !self.dead[ask.reading].targets.word(word);
        if targets == 0 {
            return 0;
        }
        targets &= world.satisfying(ask.variant.full).word(word);
        for rule in &ask.allowed.rules {
            targets = world.keys.tables[rule.key as usize].targets_in(&rule.valid, rule.needs_key, word, targets);
        }
        for group in &ask.allowed.beside {
            targets &= self.counts.get(*group).occupied_targets.word(word);
        }
        for group in &ask.allowed.apart {
            targets &= !self.counts.get(*group).occupied_targets.word(word);
        }
        targets
    }

    /// The first existing node that takes the pod, by the order of targets.
    pub(crate) fn first_target(&mut self, ask: &Ask<'_>) -> Option<usize> {
        for word in 0..self.world.targets.len().div_ceil(BLOCK) {
            if !self.world.targets.block_may_fit(word, &ask.class.requests) {
                continue;
            }
            for bit in ones(self.target_word(ask, word)) {
                let at = word * BLOCK + bit;
                self.work += 1;
                if self.target_no(ask, at).is_none() {
                    return Some(at);
                }
                self.dead[ask.reading].targets.insert(at);
            }
        }
        None
    }

    /// Why a target does not take the pod, domains and neighbours included (for `explain`).
    pub(crate) fn target_refusal(&mut self, ask: &Ask<'_>, at: usize) -> Option<TargetNo> {
        let inside = self.target_word(ask, at / BLOCK) >> (at % BLOCK) & 1 == 1;
        let dead = self.dead[ask.reading].targets.get(at);
        self.target_no(ask, at)
            .or_else(|| (!inside && !dead).then_some(TargetNo::Topology))
    }

    /// The host ports held on a target.
    pub(crate) fn ports_of(&self, at: usize) -> &[HostPort] {
        self.touched.ports(self.world.targets, at)
    }

    /// Why a target does not take the pod, domains and neighbours aside; a no is for good. In the order of section 16.3.
    fn target_no(&self, ask: &Ask<'_>, at: usize) -> Option<TargetNo> {
        let target = &self.world.targets[at];
        let spread = &ask.allowed.host_spread;
        if target.closed {
            Some(TargetNo::Closed)
        } else if ask.class.moved && self.world.settling.get(at) {
            Some(TargetNo::Settling)
        } else if !ask.variant.tolerated.get(target.taints as usize) {
            Some(TargetNo::Taint)
        } else if !self.volumes_attach(ask.class, at) {
            Some(TargetNo::Volumes)
        } else if ports_conflict(&ask.class.shape.host_ports, self.ports_of(at)) {
            Some(TargetNo::Ports)
        } else if !fits(&ask.class.requests, self.touched.placeable(self.world.targets, at)) {
            Some(TargetNo::Resources)
        } else if !self.world.satisfying(ask.variant.full).get(at) {
            Some(TargetNo::Labels)
        } else if !self.volumes_reach(ask.class, at) {
            Some(TargetNo::Reach)
        } else if spread
            .iter()
            .any(|rule| self.counts.get(rule.group).by_target[at] > rule.most)
        {
            Some(TargetNo::Topology)
        } else {
            None
        }
    }

    fn volumes_reach(&self, class: &Class, at: usize) -> bool {
        let any = |choices: &Vec<ReqId>| choices.iter().any(|choice| self.world.satisfying(*choice).get(at));
        class.volume_choices.iter().all(any)
    }

    fn volumes_attach(&self, class: &Class, at: usize) -> bool {
        let limits = &self.world.targets[at].node.volume_limits;
        limits.iter().all(|(driver, limit)| {
            let attached = self.touched.attached(self.world.targets, at).get(driver);
            let new = class
                .volumes
                .iter()
                .filter(|volume| volume.driver.as_ref() == Some(driver));
            let mut new: Vec<&str> = new.map(|volume| &*volume.claim).collect();
            new.sort_unstable();
            new.dedup();
            new.retain(|claim| !attached.is_some_and(|claims| claims.contains(*claim)));
            (attached.map_or(0, FxHashSet::len) + new.len()) as u64 <= u64::from(*limit)
        })
    }

    /// Books a pod on a target.
    pub(crate) fn place_on_target(&mut self, at: usize, class: ClassId, pod: u32) {
        let world = self.world;
        let (class, target) = (world.class(class), &world.targets[at]);
        self.touched.place(world.targets, at, class, pod);
        for id in class.counted_in.iter().chain(&class.repels) {
            let identity = &world.groups.list[*id as usize].identity;
            if !world.node_passes(identity.filter, &target.node) {
                continue;
            }
            match identity.key {
                TopologyKey::Host => self.counts.add_host(*id, Place::Target(at), 1),
                TopologyKey::Domain(key) => {
                    if let Some(domain) = world.keys.tables[key as usize].domain_of(at) {
                        self.counts.add_domain(*id, domain, 1);
                    }
                }
            }
        }
        self.order.push(pod);
        self.placed += 1;
    }

    // ---- claims (16.4) ----

    /// Of the claims `64 * word ..`: those that may take the pod as far as domains and neighbours go.
    pub(crate) fn claim_word(&self, ask: &Ask<'_>, word: usize) -> u64 {
        let mut claims = !self.dead[ask.reading].claims.word(word);
        for group in &ask.allowed.beside {
            claims &= self.counts.get(*group).occupied_claims.word(word);
        }
        for group in &ask.allowed.apart {
            claims &= !self.counts.get(*group).occupied_claims.word(word);
        }
        for rule in &ask.allowed.rules {
            if claims == 0 {
                break;
            }
            let key = rule.key as usize;
            let domains = &self.claims_in[key];
            if !rule.needs_key && rule.valid.len() == domains.len() {
                continue;
            }
            let mut inside = if rule.needs_key {
                0
            } else {
                self.claims_without[key].word(word)
            };
            for domain in rule.valid.iter() {
                inside |= domains[domain].word(word);
            }
            claims &= inside;
        }
        claims
    }

    /// The next claim at or after `cursor` that may take the pod as far as domains and neighbours go.
    pub(crate) fn next_claim(&self, ask: &Ask<'_>, cursor: &mut Cursor) -> Option<usize> {
        self.by_pods.next(cursor, |word| self.claim_word(ask, word))
    }

    /// Whether a claim may hold the pod as far as resources go, each looked at alone.
    pub(crate) fn may_hold(&mut self, ask: &Ask<'_>, at: usize) -> bool {
        let may = fits(&ask.class.requests, &self.claims[at].room);
        if !may {
            self.dead[ask.reading].claims.insert(at);
        }
        may
    }

    /// Whether a claim of this pass takes the pod.
    pub(crate) fn try_claim(&mut self, ask: &Ask<'_>, at: usize) -> Result<Fit, No> {
        self.work += 1;
        let outcome = self.try_claim_inner(ask, at);
        if matches!(outcome, Err(No::Ever)) {
            self.dead[ask.reading].claims.insert(at);
        }
        outcome
    }

    fn try_claim_inner(&mut self, ask: &Ask<'_>, at: usize) -> Result<Fit, No> {
        let world = self.world;
        let claim = &self.claims[at];
        let template = &world.templates[claim.template];
        if !fits(&ask.class.requests, &claim.room) || !ask.variant.tolerated.get(template.taints) {
            return Err(No::Ever);
        }
        let over = |rule: &crate::topology::HostSpread| {
            self.counts
                .get(rule.group)
                .by_claim
                .get(at)
                .is_some_and(|n| *n > rule.most)
        };
        if ask.allowed.host_spread.iter().any(over) || ports_conflict(&ask.class.shape.host_ports, &claim.ports) {
            return Err(No::Ever);
        }
        let mut used = claim.used.clone();
        add(&mut used, &ask.class.requests);
        let mut rows = fitting_rows(world, claim.template, &claim.rows, &used, &ask.class.shape.host_ports);
        if rows.is_empty() || claim.anchor.is_some_and(|anchor| !rows.get(anchor as usize)) {
            return Err(No::Ever);
        }
        let (state, held, anchor) = (claim.state, claim.held.clone(), claim.anchor);
        let joined = self.states.join(world, state, ask.variant.full).ok_or(No::Ever)?;
        rows.and(&self.states.get(joined).rows);
        if rows.is_empty() {
            return Err(No::Ever);
        }
        self.narrow(
            ask,
            &Base {
                state: joined,
                rows: &rows,
                held: &held,
                anchor,
                fresh: false,
            },
        )
    }

    /// Whether a new claim of a template would take the pod.
    pub(crate) fn try_template(&mut self, ask: &Ask<'_>, template: usize) -> Result<Fit, No> {
        self.work += 1;
        if self.dead[ask.reading].templates.get(template) {
            return Err(No::Ever);
        }
        let outcome = self.try_template_inner(ask, template, None);
        if matches!(outcome, Err(No::Ever)) {
            self.dead[ask.reading].templates.insert(template);
        }
        outcome
    }

    /// The same, kept to rows that hold `anchor`.
    pub(crate) fn try_template_inner(
        &mut self,
        ask: &Ask<'_>,
        template: usize,
        anchor: Option<u32>,
    ) -> Result<Fit, No> {
        let world = self.world;
        if !ask.variant.tolerated.get(world.templates[template].taints) {
            return Err(No::Ever);
        }
        let base = self
            .states
            .join(world, world.base[template], ask.variant.full)
            .ok_or(No::Ever)?;
        let mut rows = self.states.get(base).rows.clone();
        match self.limits.within(world, template) {
            Within::All => {}
            Within::Rows(within) => rows.and(&within),
            Within::NoNode => return Err(No::Ever),
        }
        let rows = fitting_rows(world, template, &rows, &ask.class.requests, &ask.class.shape.host_ports);
        if rows.is_empty() {
            return Err(No::Ever);
        }
        if ask.allowed.no_new_host {
            return Err(No::Now);
        }
        self.narrow(
            ask,
            &Base {
                state: base,
                rows: &rows,
                held: &Held::new(),
                anchor,
                fresh: true,
            },
        )
    }

    /// Volumes and topology, then `minValues` and reservations.
    fn narrow(&mut self, ask: &Ask<'_>, base: &Base<'_>) -> Result<Fit, No> {
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
        let Some(choices) = ask.class.volume_choices.get(at) else {
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
        if !domains.defined || (domains.one.is_none() && domains.bits.is_empty()) {
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

    fn finish(&mut self, base: &Base<'_>, state: StateId) -> Result<Fit, No> {
        let mut state = state;
        let mut rows = base.rows.clone();
        rows.and(&self.states.get(state).rows);
        if rows.is_empty() || base.anchor.is_some_and(|anchor| !rows.get(anchor as usize)) {
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
            if rows.is_empty() || base.anchor.is_some_and(|anchor| !rows.get(anchor as usize)) {
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
        let types = &self.world.catalogues[self.world.templates[have.template].catalogue];
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
    fn lower(&mut self, state: StateId, unmet: &[(kerf_model::intern::Sym, u32)]) -> StateId {
        let have = self.states.get(state);
        let (template, mut requirements): (usize, Requirements) = (have.template, have.requirements.clone());
        for (key, values) in unmet {
            if let Some(requirement) = requirements.get(*key) {
                requirements.replace(requirement.clone().with_min_values(Some(*values)));
            }
        }
        self.states.intern(self.world, template, requirements)
    }

    /// Opens a claim of a template for a pod.
    pub(crate) fn open(&mut self, template: usize, fit: &Fit, class: ClassId, pod: u32, anchor: Option<u32>) -> usize {
        let at = self.claims.len();
        self.limits.take(self.world, template, &fit.rows);
        self.claims.push(Claim {
            template,
            state: fit.state,
            rows: fit.rows.clone(),
            used: self.world.resources.zero(),
            room: self.world.resources.zero(),
            pods: SmallVec::new(),
            members: SmallVec::new(),
            ports: Vec::new(),
            held: Held::new(),
            anchor,
            relaxed: fit.relaxed,
        });
        for key in 0..self.claims_in.len() {
            self.enter_domains(at, key, fit.state);
        }
        self.place_on_claim(at, fit, class, pod);
        at
    }

    fn enter_domains(&mut self, at: usize, key: usize, state: StateId) {
        let domains = &self.states.get(state).domains[key];
        self.claims_without[key].set(
            at,
            !domains.defined || (domains.one.is_none() && domains.bits.is_empty()),
        );
        for (domain, claims) in self.claims_in[key].iter_mut().enumerate() {
            claims.set(at, domains.bits.get(domain));
        }
    }

    /// Books a pod on a claim that was found to take it.
    pub(crate) fn place_on_claim(&mut self, at: usize, fit: &Fit, class_id: ClassId, pod: u32) {
        let world = self.world;
        let class = world.class(class_id);
        let before = self.claims[at].state;
        self.reservations.exchange(&self.claims[at].held, &fit.held);
        if before != fit.state {
            self.narrow_claim(at, before, fit.state);
        }
        let claim = &mut self.claims[at];
        claim.state = fit.state;
        claim.rows.clone_from(&fit.rows);
        claim.held.clone_from(&fit.held);
        add(&mut claim.used, &class.requests);
        claim.ports.extend(class.shape.host_ports.iter().cloned());
        claim.pods.push(pod);
        match claim.members.iter_mut().find(|member| member.0 == class_id) {
            Some(member) => member.1 += 1,
            None => claim.members.push((class_id, 1)),
        }
        let types = &world.catalogues[world.templates[claim.template].catalogue];
        types.room(
            &claim.rows,
            &claim.used,
            &world.templates[claim.template].overhead_min,
            &mut claim.room,
        );
        let count = claim.pods.len();
        let short = |(least, room): (&i64, &i64)| *least > 0 && room < least;
        let full = self.least.iter().zip(&claim.room).any(short);
        self.by_pods.shift(at, count - 1, count, full);
        for id in class.counted_in.iter().chain(&class.repels) {
            self.record_on_claim(*id, at, fit.state, 1);
        }
        self.order.push(pod);
        self.placed += 1;
    }

    fn record_on_claim(&mut self, id: u32, at: usize, state: StateId, n: u32) {
        let group = &self.world.groups.list[id as usize];
        if !self.claim_passes(group.identity.filter, state) {
            return;
        }
        match group.identity.key {
            TopologyKey::Host => self.counts.add_host(id, Place::Claim(at), n),
            TopologyKey::Domain(key) => {
                let domains = &self.states.get(state).domains[key as usize];
                self.counts.add_claim_domains(id, group.kind(), domains, n);
            }
        }
    }

    /// A claim's state narrows: pods placed before count where it may land now.
    fn narrow_claim(&mut self, at: usize, before: StateId, after: StateId) {
        let world = self.world;
        for key in 0..self.claims_in.len() {
            let (old, new): (&Domains, &Domains) = (
                &self.states.get(before).domains[key],
                &self.states.get(after).domains[key],
            );
            if old.one == new.one && old.bits == new.bits {
                continue;
            }
            let (old, new) = (old.clone(), new.clone());
            self.enter_domains(at, key, after);
            for (class, n) in self.claims[at].members.clone() {
                let class = world.class(class);
                for id in class.counted_in.iter().chain(&class.repels) {
                    let group = &world.groups.list[*id as usize];
                    if group.identity.key != TopologyKey::Domain(key as u32) {
                        continue;
                    }
                    if self.claim_passes(group.identity.filter, before) {
                        self.counts.remove_claim_domains(*id, group.kind(), &old, n);
                    }
                    if self.claim_passes(group.identity.filter, after) {
                        self.counts.add_claim_domains(*id, group.kind(), &new, n);
                    }
                }
            }
        }
    }

    /// Whether a spread constraint looks at a claim: surely, whatever becomes of it (SCH-205).
    fn claim_passes(&mut self, filter: Option<u32>, state: StateId) -> bool {
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
            let domains = crate::states::table_of(*key).map(|key| &state.domains[key as usize]);
            domains.is_none_or(|domains| domains.defined && (domains.one.is_some() || !domains.bits.is_empty()))
        };
        let taints = &world.templates[state.template].pool.taints;
        filter.keys.iter().all(has)
            && filter
                .tolerations
                .as_ref()
                .is_none_or(|tolerations| kerf_model::taint::first_untolerated(taints, tolerations).is_none())
    }

    /// A fit of a new claim with some of its rows only; nothing where `minValues` or reservations need more of them.
    pub(crate) fn narrowed(&self, fit: &Fit, rows: Bits) -> Option<Fit> {
        let world = self.world;
        let state = self.states.get(fit.state);
        let types = &world.catalogues[world.templates[state.template].catalogue];
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

    /// Narrows a claim to some of its rows, and what it holds with them, unless it would lose all it holds (SCH-295).
    pub(crate) fn give_up_rows(&mut self, at: usize, rows: Bits) {
        let world = self.world;
        let claim = &mut self.claims[at];
        let state = self.states.get(claim.state);
        let Ok(held) = self.reservations.would_hold(world, state, &rows, &claim.held) else {
            return;
        };
        self.reservations.exchange(&claim.held, &held);
        claim.rows = rows;
        claim.held = held;
        let template = &world.templates[claim.template];
        world.catalogues[template.catalogue].room(&claim.rows, &claim.used, &template.overhead_min, &mut claim.room);
    }

    /// Takes the limits anew, each claim the largest type it has left; whether more of them is left now.
    pub(crate) fn retake_limits(&mut self) -> bool {
        let mut limits = self.world.limits.clone();
        for claim in &self.claims {
            limits.take(self.world, claim.template, &claim.rows);
        }
        let looser = limits.leave_more_than(&self.limits);
        self.limits = limits;
        if looser {
            // What pools refused for good they may take now.
            self.dead.iter_mut().for_each(|dead| dead.templates = Bits::default());
        }
        looser
    }

    /// What the claims cost at their cheapest.
    pub(crate) fn cost(&mut self) -> Price {
        (0..self.claims.len()).map(|at| self.price_of(at)).sum()
    }

    /// The cheapest price of a claim.
    pub(crate) fn price_of(&mut self, at: usize) -> Price {
        let claim = &self.claims[at];
        let state = if self.states.get(claim.state).reserved.is_empty() {
            claim.state
        } else {
            // What it holds decides which reserved offerings it may use.
            let claim = claim.clone();
            offered(self.world, self, &claim).1
        };
        self.states
            .cheapest(self.world, state, &self.claims[at].rows)
            .map_or(Price::MAX, |cheapest| cheapest.0)
    }
}

/// The least of each resource that any class asks for.
fn least(world: &World<'_>) -> Amounts {
    let mut requests = world.classes.iter().map(|class| &class.requests);
    let mut least = requests.next().cloned().unwrap_or_default();
    for other in requests {
        for (least, amount) in least.iter_mut().zip(other) {
            *least = (*least).min(*amount);
        }
    }
    least
}

fn ports_conflict(wanted: &[HostPort], held: &[HostPort]) -> bool {
    wanted.iter().any(|port| held.iter().any(|other| port.conflicts(other)))
}

/// The rows of `rows` that hold `used` beside the DaemonSets that run there, and whose DaemonSets leave the ports free (SCH-131, SCH-166).
pub(crate) fn fitting_rows(world: &World<'_>, template: usize, rows: &Bits, used: &[i64], ports: &[HostPort]) -> Bits {
    let template = &world.templates[template];
    let types = &world.catalogues[template.catalogue];
    let mut fitting = Bits::default();
    for partition in &template.partitions {
        if !rows.intersects(&partition.rows) || ports_conflict(ports, &partition.ports) {
            continue;
        }
        let mut mine = rows.clone();
        mine.and(&partition.rows);
        let mut total = Amounts::from_slice(used);
        add(&mut total, &partition.overhead);
        types.keep_fitting(&mut mine, &total);
        if template.partitions.len() == 1 {
            return mine;
        }
        fitting.or(&mine);
    }
    fitting
}
