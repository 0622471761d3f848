//! Whether an open claim, or a new claim of a template, accepts a pod (section 16.4 of `docs/behaviour/scheduling.md`).

use crate::compile::catalogue::TypeRow;
use crate::compile::limits::RowsWithinLimits;
use crate::compile::problem::Problem;
use crate::compile::templates::TemplateId;
use crate::compile::topology::{ClaimId, DomainId, KeyId};
use crate::dense::amounts::{Amounts, add, fits};
use crate::dense::bits::Bits;
use crate::dense::id_set::IdSet;
use crate::search::allowed::HostSpread;
use crate::search::assignment::{Assignment, ports_conflict};
use crate::search::claims::ClaimCursor;
use crate::search::narrowing::NarrowInput;
use crate::search::query::{Narrowed, Query, Rejection};
use crate::search::reservations::HeldReservations;
use crate::search::specs::SpecId;
use kerf_model::pod::HostPort;

impl Assignment<'_, '_> {
    /// The claims among `64 * word ..` that domains and neighbours do not exclude, as a word of bits.
    pub(crate) fn candidate_claims(&mut self, query: &Query<'_>, word: usize) -> u64 {
        let rejections = &mut self.rejections[query.level_id];
        let mut gone = rejections.claims.word(word);
        for group in &query.allowed.host_anti_affinity {
            gone |= self.counts.get(*group).occupied_claims.word(word);
        }
        if gone == u64::MAX {
            rejections.exhausted.insert(word);
            return 0;
        }
        let mut claims = !gone;
        for group in &query.allowed.host_affinity {
            claims &= self.counts.get(*group).occupied_claims.word(word);
        }
        for rule in &query.allowed.rules {
            if claims == 0 {
                break;
            }
            let key = rule.key;
            let domains = &self.claims_by_domain[key];
            if !rule.needs_key && rule.valid.len() == domains.len() {
                continue;
            }
            let mut inside = if rule.needs_key {
                0
            } else {
                self.claims_without_key[key].word(word)
            };
            for domain in rule.valid.iter() {
                inside |= domains[domain].word(word);
            }
            claims &= inside;
        }
        claims
    }

    /// The words of the claim set in which every claim is known to reject the class permanently.
    pub(crate) fn exhausted(&self, query: &Query<'_>) -> &Bits {
        &self.rejections[query.level_id].exhausted
    }

    /// The next claim from `cursor` on that domains and neighbours do not exclude.
    pub(crate) fn next_claim(&mut self, query: &Query<'_>, cursor: &mut ClaimCursor) -> Option<ClaimId> {
        let claims_by_pod_count = std::mem::take(&mut self.claims_by_pod_count);
        let exhausted = self.exhausted(query).clone();
        let next = claims_by_pod_count.next(cursor, &exhausted, |word| self.candidate_claims(query, word));
        self.claims_by_pod_count = claims_by_pod_count;
        next
    }

    /// Returns whether a claim has enough of every resource, each looked at alone. Cheap upper bound for [`Self::try_claim`].
    pub(crate) fn may_have_room(&mut self, query: &Query<'_>, at: ClaimId) -> bool {
        let may = fits(&query.class.requests, &self.claims[at].room);
        if !may {
            self.rejections[query.level_id].claims.insert(at);
        }
        may
    }

    /// Checks whether an open claim accepts a pod, and what it would become. One unit of work.
    pub(crate) fn try_claim(&mut self, query: &Query<'_>, at: ClaimId) -> Result<Narrowed, Rejection> {
        self.work += 1;
        let outcome = self.try_claim_inner(query, at);
        if matches!(outcome, Err(Rejection::Permanent)) {
            self.rejections[query.level_id].claims.insert(at);
        }
        outcome
    }

    /// [`Self::try_claim`] without counting work or remembering rejections.
    fn try_claim_inner(&mut self, query: &Query<'_>, at: ClaimId) -> Result<Narrowed, Rejection> {
        let problem = self.problem;
        let claim = &self.claims[at];
        let template = &problem.templates[claim.template];
        if !fits(&query.class.requests, &claim.room) || !query.level.tolerated.get(template.taints) {
            return Err(Rejection::Permanent);
        }
        let over = |rule: &HostSpread| {
            self.counts
                .get(rule.group)
                .by_claim
                .get(at)
                .is_some_and(|n| *n > rule.most)
        };
        if query.allowed.host_spread.iter().any(over) || ports_conflict(&query.class.shape.host_ports, &claim.ports) {
            return Err(Rejection::Permanent);
        }
        let mut used = claim.used.clone();
        add(&mut used, &query.class.requests);
        let mut rows = fitting_rows(
            problem,
            claim.template,
            &claim.rows,
            &used,
            &query.class.shape.host_ports,
        );
        if rows.is_empty() {
            return Err(Rejection::Permanent);
        }
        let (spec, held_reservations) = (claim.spec, claim.held_reservations.clone());
        let joined = self
            .specs
            .with_requirements(problem, spec, query.level.full)
            .ok_or(Rejection::Permanent)?;
        rows.and(&self.specs.get(joined).rows);
        if rows.is_empty() {
            return Err(Rejection::Permanent);
        }
        if let Some(within) = self.rows_within_limits(at) {
            rows.and(&within);
            if rows.is_empty() {
                // Other claims may use less later.
                return Err(Rejection::Temporary);
            }
        }
        self.narrow(
            query,
            &NarrowInput {
                spec: joined,
                rows: &rows,
                held_reservations: &held_reservations,
                fresh: false,
            },
        )
    }

    /// Checks whether a new claim of a template accepts a pod. One unit of work; a permanent rejection is remembered.
    pub(crate) fn try_template(&mut self, query: &Query<'_>, template: TemplateId) -> Result<Narrowed, Rejection> {
        self.work += 1;
        if self.rejections[query.level_id].templates.get(template) {
            return Err(Rejection::Permanent);
        }
        let outcome = self.check_template(query, template);
        if matches!(outcome, Err(Rejection::Permanent)) {
            self.rejections[query.level_id].templates.insert(template);
        }
        outcome
    }

    /// The first template whose new claim accepts a pod (SCH-141). A reservation conflict ends the search (SCH-250).
    pub(crate) fn first_template(&mut self, query: &Query<'_>) -> Result<(TemplateId, Narrowed), Rejection> {
        for template in self.problem.templates.ids() {
            match self.try_template(query, template) {
                Ok(narrowed) => return Ok((template, narrowed)),
                Err(Rejection::Reserved(conflict)) => return Err(Rejection::Reserved(conflict)),
                Err(Rejection::Permanent | Rejection::Temporary) => {}
            }
        }
        Err(Rejection::Temporary)
    }

    /// Like [`Self::try_template`], but counts as no work and remembers nothing.
    pub(crate) fn check_template(&mut self, query: &Query<'_>, template: TemplateId) -> Result<Narrowed, Rejection> {
        self.check_new_claim(query, template, self.instance.initial_spec(template))
    }

    /// Like [`Self::check_template`], for a new claim in given topology domains.
    pub(crate) fn check_template_in(
        &mut self,
        query: &Query<'_>,
        template: TemplateId,
        domains: &[(KeyId, DomainId)],
    ) -> Result<Narrowed, Rejection> {
        let mut spec = self.instance.initial_spec(template);
        for (key, domain) in domains {
            spec = self.specs.with_domain(self.problem, spec, *key, *domain);
        }
        self.check_new_claim(query, template, spec)
    }

    /// Checks whether a new claim of a template with a spec accepts a pod.
    fn check_new_claim(
        &mut self,
        query: &Query<'_>,
        template: TemplateId,
        spec: SpecId,
    ) -> Result<Narrowed, Rejection> {
        let problem = self.problem;
        if !query.level.tolerated.get(problem.templates[template].taints) {
            return Err(Rejection::Permanent);
        }
        let base = self
            .specs
            .with_requirements(problem, spec, query.level.full)
            .ok_or(Rejection::Permanent)?;
        let mut rows = self.specs.get(base).rows.clone();
        match self.limits.within(problem.templates, template) {
            RowsWithinLimits::All => {}
            RowsWithinLimits::Rows(within) => rows.and(&within),
            RowsWithinLimits::NoNode => return Err(Rejection::Permanent),
        }
        let used_up = if self.uses_cheapest.get(template) {
            // Claims may use less later.
            Rejection::Temporary
        } else {
            Rejection::Permanent
        };
        let rows = fitting_rows(
            problem,
            template,
            &rows,
            &query.class.requests,
            &query.class.shape.host_ports,
        );
        if rows.is_empty() {
            return Err(used_up);
        }
        if query.allowed.no_new_host {
            return Err(Rejection::Temporary);
        }
        self.narrow(
            query,
            &NarrowInput {
                spec: base,
                rows: &rows,
                held_reservations: &HeldReservations::new(),
                fresh: true,
            },
        )
    }
}

/// The rows that have `used` besides the overhead of their DaemonSets, and whose DaemonSets leave the ports free (SCH-131, SCH-166).
fn fitting_rows(
    problem: &Problem<'_>,
    template: TemplateId,
    rows: &IdSet<TypeRow>,
    used: &[i64],
    ports: &[HostPort],
) -> IdSet<TypeRow> {
    let types = problem.types(template);
    let template = &problem.templates[template];
    let mut fitting = IdSet::default();
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
