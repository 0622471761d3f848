//! Whether a claim of this pass, or a new one of a template, takes a pod (16.4).

use crate::amounts::{Amounts, add, fits};
use crate::bits::Bits;
use crate::claims::Cursor;
use crate::limits::Within;
use crate::reservations::Held;
use crate::run::narrow::Base;
use crate::run::{Ask, Fit, No, Run, ports_conflict};
use crate::topology::HostSpread;
use crate::world::World;
use kerf_model::pod::HostPort;

impl Run<'_, '_> {
    /// Of the claims `64 * word ..`: those that may take the pod as far as domains and neighbours go.
    pub(crate) fn claim_word(&mut self, ask: &Ask<'_>, word: usize) -> u64 {
        let dead = &mut self.dead[ask.reading];
        let mut gone = dead.claims.word(word);
        for group in &ask.allowed.apart {
            gone |= self.counts.get(*group).occupied_claims.word(word);
        }
        if gone == u64::MAX {
            dead.spent.insert(word);
            return 0;
        }
        let mut claims = !gone;
        for group in &ask.allowed.beside {
            claims &= self.counts.get(*group).occupied_claims.word(word);
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

    /// The words in which no claim will ever take the pod, as far as is known.
    pub(crate) fn spent(&self, ask: &Ask<'_>) -> &Bits {
        &self.dead[ask.reading].spent
    }

    /// The next claim at or after `cursor` that may take the pod as far as domains and neighbours go.
    pub(crate) fn next_claim(&mut self, ask: &Ask<'_>, cursor: &mut Cursor) -> Option<usize> {
        let by_pods = std::mem::take(&mut self.by_pods);
        let spent = self.spent(ask).clone();
        let next = by_pods.next(cursor, &spent, |word| self.claim_word(ask, word));
        self.by_pods = by_pods;
        next
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
        let over = |rule: &HostSpread| {
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
        if rows.is_empty() {
            return Err(No::Ever);
        }
        let (state, held) = (claim.state, claim.held.clone());
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
        let outcome = self.would_take(ask, template);
        if matches!(outcome, Err(No::Ever)) {
            self.dead[ask.reading].templates.insert(template);
        }
        outcome
    }

    /// The first template a new claim of which would take the pod (SCH-141); a reservation conflict ends the search (SCH-250).
    pub(crate) fn first_template(&mut self, ask: &Ask<'_>) -> Result<(usize, Fit), No> {
        for template in 0..self.world.templates.len() {
            match self.try_template(ask, template) {
                Ok(fit) => return Ok((template, fit)),
                Err(No::Reserved(conflict)) => return Err(No::Reserved(conflict)),
                Err(No::Ever | No::Now) => {}
            }
        }
        Err(No::Now)
    }

    /// The same as [`Self::try_template`], counted as no work and remembered by nobody.
    pub(crate) fn would_take(&mut self, ask: &Ask<'_>, template: usize) -> Result<Fit, No> {
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
                fresh: true,
            },
        )
    }
}

/// The rows of `rows` that hold `used` beside the DaemonSets that run there, and whose DaemonSets leave the ports free (SCH-131, SCH-166).
fn fitting_rows(world: &World<'_>, template: usize, rows: &Bits, used: &[i64], ports: &[HostPort]) -> Bits {
    let types = world.types(template);
    let template = &world.templates[template];
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
