//! What claims use of pool limits. Upstream subtracts the largest type a claim may become (SCH-148), usually far more than it is launched
//! as. Here a claim may instead use what its cheapest row needs, and claims are narrowed at the end so that every row they keep fits.

use crate::compile::catalogue::TypeRow;
use crate::compile::limits::{LimitAmounts, RowsWithinLimits};
use crate::compile::templates::TemplateId;
use crate::compile::topology::ClaimId;
use crate::dense::id_set::IdSet;
use crate::search::assignment::Assignment;
use crate::search::query::Narrowed;
use kerf_model::intern::sym;

impl Assignment<'_, '_> {
    /// Lets new claims use what their cheapest row needs, in pools whose limits may be reached by `pods` nodes. Pools with `minValues`
    /// keep the rule of upstream, because their claims cannot be narrowed freely.
    pub(crate) fn use_limits_by_cheapest_row(&mut self, pods: usize) {
        let templates = self.problem.templates;
        let reachable = |template: TemplateId| {
            let limits = templates[template].limited.iter().zip(self.limits.left(template));
            limits.into_iter().any(|(limit, left)| {
                let largest = limit.largest.first().map_or(0, |(capacity, _)| *capacity);
                let largest = if limit.name == sym::NODES { 1 } else { largest };
                *left < largest.saturating_mul(pods as i64)
            })
        };
        let free = |template: &TemplateId| !templates[*template].requirements.has_min_values();
        self.uses_cheapest = templates.ids().filter(|id| reachable(*id)).filter(free).collect();
    }

    /// The rows of an open claim that limits leave it, if the template's claims use what their cheapest row needs. `None` if they exclude
    /// none.
    pub(super) fn rows_within_limits(&self, claim: ClaimId) -> Option<IdSet<TypeRow>> {
        let claim = &self.claims[claim];
        if !self.uses_cheapest.get(claim.template) {
            return None;
        }
        let within = self
            .limits
            .within_besides(self.problem.templates, claim.template, &claim.limit_use);
        match within {
            RowsWithinLimits::Rows(rows) => Some(rows),
            RowsWithinLimits::All | RowsWithinLimits::NoNode => None,
        }
    }

    /// Updates what a claim uses of the limits when it becomes `narrowed`.
    pub(super) fn update_limit_use(&mut self, claim: ClaimId, narrowed: &Narrowed) {
        let template = self.claims[claim].template;
        if !self.uses_cheapest.get(template) {
            return;
        }
        let problem = self.problem;
        let Some((_, row, _)) = self.specs.cheapest(problem, narrowed.spec, &narrowed.rows) else {
            return;
        };
        let after = problem.limit_amounts(template, row);
        let before = std::mem::replace(&mut self.claims[claim].limit_use, after.clone());
        self.limits.exchange(template, &before, &after);
    }

    /// Narrows the claims that use what their cheapest row needs: what is left of the limits is shared evenly among them, and each keeps
    /// the rows for which its share suffices. From then on all claims use what their largest row needs. Returns whether the limits hold.
    pub(crate) fn narrow_to_limits(&mut self) -> bool {
        let uses_cheapest = std::mem::take(&mut self.uses_cheapest);
        for template in uses_cheapest.iter() {
            let claims: Vec<ClaimId> = self
                .claims
                .ids()
                .filter(|claim| self.claims[*claim].template == template)
                .collect();
            for (at, claim) in claims.iter().enumerate() {
                self.narrow_to_share(*claim, claims.len() - at);
            }
        }
        let _ = self.recompute_limits();
        uses_cheapest.iter().all(|template| {
            let mut left = self
                .limits
                .left(template)
                .iter()
                .zip(self.problem.limits.left(template));
            left.all(|(after, before)| *after >= 0 || after == before)
        })
    }

    /// Removes the rows of a claim that need more than what it uses now and an even share of what is left for it and later claims.
    fn narrow_to_share(&mut self, at: ClaimId, claims: usize) {
        let problem = self.problem;
        let (template, before) = (self.claims[at].template, self.claims[at].limit_use.clone());
        let limited = &problem.templates[template].limited;
        let left = self.limits.left(template);
        let share = |(used, left): (&i64, &i64)| used.saturating_add((*left).max(0) / claims as i64);
        let most: LimitAmounts = before.iter().zip(left).map(share).collect();
        let mut rows = self.claims[at].rows.clone();
        for (limit, most) in limited.iter().zip(&most).filter(|(limit, _)| limit.name != sym::NODES) {
            for (_, row) in limit.largest.iter().take_while(|(capacity, _)| capacity > most) {
                rows.remove(*row);
            }
        }
        if rows.is_empty() {
            return;
        }
        self.restrict_rows(at, rows);
        let mut after = before.clone();
        for (amount, limit) in after
            .iter_mut()
            .zip(limited)
            .filter(|(_, limit)| limit.name != sym::NODES)
        {
            let kept = &self.claims[at].rows;
            let largest = limit.largest.iter().find(|(_, row)| kept.get(*row));
            *amount = largest.map_or(0, |(capacity, _)| *capacity);
        }
        self.limits.exchange(template, &before, &after);
        self.claims[at].limit_use = after;
    }
}
